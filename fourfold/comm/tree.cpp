// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/tree.hpp"

#include <algorithm>

#include "fourfold/comm/arithmetic.hpp"

namespace fourfold::comm {

namespace {

using schedule::Chunk;
using schedule::TreePlace;

struct Message {
  Request request;
  int peer = 0;
  Chunk elements;
  int child = 0;              ///< the child that sends it, by its place among the children
  std::byte* data = nullptr;  ///< the scratch memory that it holds, or null
};

TreePlace place_of(const schedule::Collective& c, const Port& port) {
  return schedule::tree_place(schedule::algorithm_of(c, port.size()), port.size(), c.root,
                              port.index());
}

class Broadcast final : public Operation {
 public:
  Broadcast(const schedule::Collective& collective, std::byte* data, const Port& port)
      : port_(port),
        cut_(collective, port.reach()),
        count_(collective.count),
        data_(data),
        place_(place_of(collective, port)),
        segments_(cut_.segments(collective.count)),
        received_(place_.parent < 0 ? segments_ : 0),
        posted_(received_),
        receives_(cut_.window),
        sends_(2 * cut_.window) {}

  bool advance() override {
    for (bool moved = true; moved;) {
      moved = false;
      for (; posted_ < segments_ && !receives_.full(); ++posted_, moved = true) {
        const Chunk elements = segment(posted_);
        receives_.push(
            {port_.receive(at(elements), bytes(elements), place_.parent), place_.parent, elements});
      }
      for (; !receives_.empty() && port_.test(receives_.front().request); moved = true) {
        receives_.pop();
        ++received_;
      }
      const auto children = static_cast<std::int64_t>(place_.children.size());
      for (; sent_ < received_ * children && !sends_.full(); ++sent_, moved = true) {
        const Chunk elements = segment(sent_ / children);
        const int peer = place_.children[static_cast<std::size_t>(sent_ % children)];
        sends_.push({port_.send(at(elements), bytes(elements), peer), peer, elements});
      }
      for (; !sends_.empty() && port_.test(sends_.front().request); moved = true) sends_.pop();
    }
    return received_ == segments_ && sends_.empty();
  }

  int awaited() const override {
    if (received_ < segments_) return place_.parent;
    return sends_.empty() ? -1 : sends_.front().peer;
  }

 private:
  Chunk segment(std::int64_t index) const { return cut_.segment({0, count_}, index); }
  std::byte* at(const Chunk& elements) const { return data_ + elements.begin * cut_.element_size; }
  std::int64_t bytes(const Chunk& elements) const { return elements.size() * cut_.element_size; }

  Port port_;
  Cut cut_;
  std::int64_t count_;
  std::byte* data_;
  TreePlace place_;
  std::int64_t segments_;
  std::int64_t received_;
  std::int64_t posted_;
  std::int64_t sent_ = 0;
  Window<Message> receives_;
  Window<Message, 2 * schedule::kLargestWindow> sends_;
};

class TreeReduce final : public Operation {
 public:
  TreeReduce(const schedule::Collective& collective, const std::byte* in, std::byte* out,
             const Port& port, ScratchPool& scratch)
      : port_(port),
        cut_(collective, port.reach()),
        collective_(collective),
        in_(in),
        out_(out),
        place_(place_of(collective, port)),
        children_(static_cast<int>(place_.children.size())),
        segments_(cut_.segments(collective.count)),
        messages_(segments_ * children_),
        slots_(scratch, children_ > 0 ? 2 * cut_.window + 1 : 0,
               std::min(cut_.segment_bytes(), collective.payload().value())),
        receives_(cut_.window),
        sends_(cut_.window) {}

  bool advance() override {
    for (bool moved = true; moved;) {
      moved = post_receives();
      moved |= finish_receives();
      moved |= send_leaf();
      moved |= finish_sends();
    }
    return summed_ == segments_ && sends_.empty();
  }

  int awaited() const override {
    if (!receives_.empty()) return receives_.front().peer;
    return sends_.empty() ? -1 : place_.parent;
  }

 private:
  Chunk segment(std::int64_t index) const { return cut_.segment({0, collective_.count}, index); }
  std::int64_t bytes(const Chunk& elements) const { return elements.size() * cut_.element_size; }

  bool post_receives() {
    bool moved = false;
    for (; posted_ < messages_ && !receives_.full() && slots_.any(); ++posted_, moved = true) {
      const int child = static_cast<int>(posted_ % children_);
      const int peer = place_.children[static_cast<std::size_t>(child)];
      const Chunk elements = segment(posted_ / children_);
      std::byte* slot = slots_.take();
      receives_.push({port_.receive(slot, bytes(elements), peer), peer, elements, child, slot});
    }
    return moved;
  }

  bool finish_receives() {
    bool moved = false;
    while (!receives_.empty() && !sends_.full() && port_.test(receives_.front().request)) {
      add(receives_.front());
      receives_.pop();
      moved = true;
    }
    return moved;
  }

  /// The sum of a segment is formed in the first child's slot, or in the result at the root.
  void add(const Message& message) {
    const std::byte* mine = in_ + message.elements.begin * cut_.element_size;
    const bool first = message.child == 0;
    const bool root = place_.parent < 0;
    if (first) sum_ = root ? out_ + message.elements.begin * cut_.element_size : message.data;
    combine(sum_, first ? mine : sum_, message.data, message.elements.size(), collective_.dtype,
            collective_.reduce);
    if (sum_ != message.data) slots_.give(message.data);
    if (message.child + 1 < children_) return;
    ++summed_;
    if (!root) send(message.elements, sum_, sum_);
  }

  /// A rank without children sends its own part.
  bool send_leaf() {
    bool moved = false;
    for (; children_ == 0 && summed_ < segments_ && !sends_.full(); ++summed_, moved = true) {
      const Chunk elements = segment(summed_);
      send(elements, in_ + elements.begin * cut_.element_size, nullptr);
    }
    return moved;
  }

  void send(const Chunk& elements, const std::byte* data, std::byte* slot) {
    sends_.push(
        {port_.send(data, bytes(elements), place_.parent), place_.parent, elements, 0, slot});
  }

  bool finish_sends() {
    bool moved = false;
    for (; !sends_.empty() && port_.test(sends_.front().request); moved = true) {
      if (sends_.front().data != nullptr) slots_.give(sends_.front().data);
      sends_.pop();
    }
    return moved;
  }

  Port port_;
  Cut cut_;
  schedule::Collective collective_;
  const std::byte* in_;
  std::byte* out_;
  TreePlace place_;
  int children_;
  std::int64_t segments_;
  std::int64_t messages_;
  Slots slots_;  // for arriving segments, the sum so far and segments being sent
  std::byte* sum_ = nullptr;
  std::int64_t posted_ = 0;
  std::int64_t summed_ = 0;
  Window<Message> receives_;
  Window<Message> sends_;
};

}  // namespace

OperationPtr make_broadcast(const schedule::Collective& collective, void* data, const Port& port) {
  return std::make_unique<Broadcast>(collective, static_cast<std::byte*>(data), port);
}

OperationPtr make_tree_reduce(const schedule::Collective& collective, const void* in, void* out,
                              const Port& port, ScratchPool& scratch) {
  return std::make_unique<TreeReduce>(collective, static_cast<const std::byte*>(in),
                                      static_cast<std::byte*>(out), port, scratch);
}

}  // namespace fourfold::comm
