// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fourfold/comm/arithmetic.hpp"
#include "fourfold/comm/transfers.hpp"

namespace fourfold::comm {

namespace {

using schedule::Chunk;

/// Messages are sent and received in the order (segment, distance). A segment is summed in that
/// order.
class Bf16ReduceScatter final : public Operation {
 public:
  Bf16ReduceScatter(const schedule::Collective& collective, const BFloat16* in, BFloat16* out,
                    const Port& port, ScratchPool& scratch)
      : port_(port),
        cut_(collective, port.reach()),
        count_(collective.count),
        in_(in),
        out_(out),
        messages_((port.size() - 1) * cut_.segments(chunk(0).size())),
        segment_(std::min(cut_.elements, chunk(0).size())),
        slots_(scratch, cut_.window, segment_ * cut_.element_size),
        sum_block_(scratch.take(segment_ * static_cast<std::int64_t>(sizeof(float)))),
        sum_(reinterpret_cast<float*>(sum_block_.data())),
        sends_(cut_.window),
        receives_(cut_.window) {}

  bool advance() override {
    for (bool moved = true; moved;) {
      moved = post_receives();
      moved |= post_sends();
      moved |= finish_receives();
      moved |= finish_sends();
    }
    return sent_ == messages_ && sends_.empty() && posted_ == messages_ && receives_.empty();
  }

  int awaited() const override {
    if (!receives_.empty()) return port_.neighbour(-receives_.front().distance);
    return sends_.empty() ? -1 : sends_.front().peer;
  }

 private:
  struct Incoming {
    Request request;
    int distance = 0;  ///< the sender is this many places before this rank
    Chunk elements;    ///< of the whole tensor
    std::byte* slot = nullptr;
  };
  struct Outgoing {
    Request request;
    int peer = 0;
  };

  Chunk chunk(int index) const { return schedule::chunk_of(count_, port_.size(), index); }
  int distance_of(std::int64_t message) const {
    return static_cast<int>(message % (port_.size() - 1)) + 1;
  }
  Chunk segment_of(std::int64_t message, int owner) const {
    return cut_.segment(chunk(owner), message / (port_.size() - 1));
  }

  bool post_receives() {
    bool moved = false;
    for (; posted_ < messages_ && !receives_.full(); ++posted_, moved = true) {
      Incoming incoming{{}, distance_of(posted_), segment_of(posted_, port_.index()), nullptr};
      if (incoming.elements.size() == 0) continue;
      incoming.slot = slots_.take();  // there are as many slots as places in the window
      incoming.request = port_.receive(incoming.slot, incoming.elements.size() * cut_.element_size,
                                       port_.neighbour(-incoming.distance));
      receives_.push(incoming);
    }
    return moved;
  }

  bool post_sends() {
    bool moved = false;
    const std::int64_t received = posted_ - receives_.size();
    const std::int64_t limit = std::min(messages_, received + cut_.lead(port_));
    for (; sent_ < limit && !sends_.full(); ++sent_, moved = true) {
      const int peer = port_.neighbour(distance_of(sent_));
      const Chunk elements = segment_of(sent_, peer);
      if (elements.size() == 0) continue;
      sends_.push(
          {port_.send(in_ + elements.begin, elements.size() * cut_.element_size, peer), peer});
    }
    return moved;
  }

  bool finish_receives() {
    bool moved = false;
    while (!receives_.empty() && port_.test(receives_.front().request)) {
      add(receives_.front());
      slots_.give(receives_.front().slot);
      receives_.pop();
      moved = true;
    }
    return moved;
  }

  bool finish_sends() {
    bool moved = false;
    for (; !sends_.empty() && port_.test(sends_.front().request); moved = true) sends_.pop();
    return moved;
  }

  void add(const Incoming& incoming) {
    const Chunk& elements = incoming.elements;
    if (incoming.distance == 1) widen(sum_, in_ + elements.begin, elements.size());
    add_widened(sum_, reinterpret_cast<const BFloat16*>(incoming.slot), elements.size());
    if (incoming.distance == port_.size() - 1) {
      BFloat16* result = out_ + (elements.begin - chunk(port_.index()).begin);
      round_to_bfloat16(result, sum_, elements.size());
    }
  }

  Port port_;
  Cut cut_;
  std::int64_t count_;
  const BFloat16* in_;
  BFloat16* out_;
  std::int64_t messages_;
  std::int64_t segment_;  // elements, at most
  Slots slots_;
  ScratchPool::Block sum_block_;
  float* sum_;
  std::int64_t posted_ = 0;
  std::int64_t sent_ = 0;
  Window<Outgoing> sends_;
  Window<Incoming> receives_;
};

class DirectAllReduce final : public Operation {
 public:
  DirectAllReduce(const schedule::Collective& collective, const View& data, const Port& port,
                  ScratchPool& scratch)
      : port_(port),
        collective_(collective),
        cut_(collective, port.reach()),
        data_(static_cast<std::byte*>(data.data)),
        bytes_(collective.payload().value()),
        parts_block_(scratch.take((port.size() - 1) * bytes_)),
        segments_(cut_.segments(collective.count)),
        requests_(static_cast<std::size_t>(2 * (port.size() - 1) * segments_)) {
    if (sums_in_float()) {
      sum_block_ = scratch.take(collective.count * static_cast<std::int64_t>(sizeof(float)));
    }
  }

  bool advance() override {
    if (requests_.empty()) return true;
    if (!std::exchange(started_, true)) post();
    for (; done_ < requests_.size(); ++done_) {
      if (!port_.test(requests_[done_])) return false;
    }
    sum();
    return true;
  }

  int awaited() const override {
    if (done_ >= requests_.size()) return -1;
    const auto peer = static_cast<int>(static_cast<std::int64_t>(done_) / segments_);
    const int others = port_.size() - 1;
    return peer < others ? sender(peer) : port_.neighbour(peer - others + 1);
  }

 private:
  int sender(int i) const { return port_.neighbour(-1 - i); }
  std::int64_t bytes_of(std::int64_t elements) const { return elements * cut_.element_size; }
  bool sums_in_float() const {
    return collective_.dtype == DType::kBF16 && collective_.reduce == ReduceOp::kSum;
  }

  void post() {
    const int others = port_.size() - 1;
    auto request = requests_.begin();
    for (int i = 0; i < others; ++i) {
      for (std::int64_t k = 0; k < segments_; ++k) {
        const Chunk piece = cut_.segment({0, collective_.count}, k);
        *request++ = port_.receive(parts_block_.data() + i * bytes_ + bytes_of(piece.begin),
                                   bytes_of(piece.size()), sender(i));
      }
    }
    for (int i = 0; i < others; ++i) {
      for (std::int64_t k = 0; k < segments_; ++k) {
        const Chunk piece = cut_.segment({0, collective_.count}, k);
        *request++ = port_.send(data_ + bytes_of(piece.begin), bytes_of(piece.size()),
                                port_.neighbour(1 + i));
      }
    }
  }

  /// The contribution of member `index`.
  std::byte* part(int index) const {
    if (index == port_.index()) return data_;
    return parts_block_.data() + (port_.neighbour(-1 - index)) * bytes_;
  }

  void sum() {
    const std::int64_t count = collective_.count;
    if (sums_in_float()) {
      auto* sum = reinterpret_cast<float*>(sum_block_.data());
      widen(sum, reinterpret_cast<const BFloat16*>(part(0)), count);
      for (int i = 1; i < port_.size(); ++i) {
        add_widened(sum, reinterpret_cast<const BFloat16*>(part(i)), count);
      }
      round_to_bfloat16(reinterpret_cast<BFloat16*>(data_), sum, count);
      return;
    }
    // The sum is formed in the first part, so that nothing is overwritten before it is read. The
    // last addition writes the result to its place.
    std::byte* sum = part(0);
    for (int i = 1; i < port_.size(); ++i) {
      std::byte* out = i + 1 == port_.size() ? data_ : sum;
      combine(out, sum, part(i), count, collective_.dtype, collective_.reduce);
    }
  }

  Port port_;
  schedule::Collective collective_;
  Cut cut_;
  std::byte* data_;
  std::int64_t bytes_;
  ScratchPool::Block parts_block_;  // the parts of sender(0), sender(1), ...
  ScratchPool::Block sum_block_;
  std::int64_t segments_;          // of a part
  std::vector<Request> requests_;  // first the receives, then the sends
  std::size_t done_ = 0;
  bool started_ = false;
};

/// Keeps a block of scratch memory alive for the operation that uses it.
class WithScratch final : public Operation {
 public:
  WithScratch(ScratchPool::Block block, OperationPtr inner)
      : block_(std::move(block)), inner_(std::move(inner)) {}
  bool advance() override { return inner_->advance(); }
  int awaited() const override { return inner_->awaited(); }

 private:
  ScratchPool::Block block_;
  OperationPtr inner_;
};

}  // namespace

OperationPtr make_bf16_reduce_scatter(const schedule::Collective& collective, const void* in,
                                      void* out, const Port& port, ScratchPool& scratch) {
  return std::make_unique<Bf16ReduceScatter>(collective, static_cast<const BFloat16*>(in),
                                             static_cast<BFloat16*>(out), port, scratch);
}

OperationPtr make_bf16_reduce(const schedule::Collective& collective, const void* in, void* out,
                              const Port& port, ScratchPool& scratch) {
  const bool root = port.index() == collective.root;
  const auto chunk = schedule::chunk_of(collective.count, port.size(), port.index());
  const auto size = static_cast<std::int64_t>(sizeof(BFloat16));
  ScratchPool::Block block = scratch.take(root ? 0 : chunk.size() * size);
  std::byte* mine = root ? static_cast<std::byte*>(out) + chunk.begin * size : block.data();
  std::vector<OperationPtr> parts;
  parts.push_back(make_bf16_reduce_scatter(collective, in, mine, port, scratch));
  parts.push_back(make_gather(collective, mine, out, port));
  return std::make_unique<WithScratch>(std::move(block),
                                       std::make_unique<Sequence>(std::move(parts)));
}

OperationPtr make_direct_all_reduce(const schedule::Collective& collective, const View& data,
                                    const Port& port, ScratchPool& scratch) {
  return std::make_unique<DirectAllReduce>(collective, data, port, scratch);
}

}  // namespace fourfold::comm
