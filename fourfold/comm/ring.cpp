// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fourfold/comm/arithmetic.hpp"

namespace fourfold::comm {

namespace {

using schedule::Chunk;

/// p ranks hold p chunks each. In a reducing step a rank sends a chunk on and adds its own part to
/// the chunk that it receives. After p-1 steps it has the complete sum of its own chunk. The terms
/// are always added in the order of the ring, wherever and whenever the ring runs. In a gathering
/// step a rank passes on the chunk that it received last.
///
/// Chunks are cut into segments. `window` segments of every chunk go around the ring together, as a
/// round. The messages of a rank form one stream in the order (round, step, segment). The order is
/// the same on both sides of every link, so that messages match without numbers. A segment is sent
/// on as soon as it has arrived, and rounds follow each other without a gap. Whatever the size of
/// the tensor, the scratch memory is two windows of segments: one for segments that wait to be sent
/// on, one for segments that arrive. (With less than one window and one segment the ring would
/// deadlock.)
class Ring : public Operation {
 public:
  Ring(const schedule::Collective& collective, const Port& port, bool reduces, bool gathers)
      : port_(port),
        cut_(collective, port.reach()),
        count_(collective.count),
        dtype_(collective.dtype),
        reduce_(collective.reduce),
        reducing_steps_(reduces ? port.size() - 1 : 0),
        steps_(reducing_steps_ + (gathers ? port.size() - 1 : 0)),
        segments_(cut_.segments(chunk(0).size())),  // chunk 0 is among the largest
        messages_(steps_ * segments_),
        sends_(cut_.window),
        receives_(cut_.window) {}

  bool advance() final {
    for (bool moved = true; moved;) {
      moved = post_receives();
      moved |= post_sends();
      if (!std::exchange(started_, true)) on_start();
      moved |= finish_receives();
      moved |= finish_sends();
    }
    return received_ == messages_ && sent_ == messages_ && sends_.empty();
  }

  int awaited() const final {
    if (received_ < messages_) return port_.neighbour(-1);
    return sends_.empty() ? -1 : port_.neighbour(1);
  }

 protected:
  /// One message of the stream.
  struct Message {
    int step = 0;
    std::int64_t segment = 0;
    std::int64_t width = 0;  ///< the number of segments in its round
    Chunk elements;          ///< elements of the whole tensor
    int owner = 0;           ///< the chunk that the elements belong to
  };

  // These functions differ between the three operations. A slot is scratch memory; `target` may
  // return null when no slot is free at the moment.
  virtual void on_start() {}
  virtual const std::byte* source(const Message& message) = 0;
  virtual void on_sent(const Message&, const std::byte*) {}
  virtual std::byte* target(const Message& message) = 0;
  virtual void on_received(const Message& message, std::byte* data) = 0;

  bool reduces(const Message& message) const { return message.step < reducing_steps_; }
  bool last_reduction(const Message& message) const { return message.step == reducing_steps_ - 1; }
  Chunk chunk(int index) const { return schedule::chunk_of(count_, port_.size(), index); }
  Chunk own_chunk() const { return chunk(port_.index()); }
  std::int64_t bytes(std::int64_t elements) const { return elements * cut_.element_size; }
  void combine_into(std::byte* out, const std::byte* a, const std::byte* b,
                    const Message& message) const {
    combine(out, a, b, message.elements.size(), dtype_, reduce_);
  }

  Port port_;
  Cut cut_;

 private:
  struct InFlight {
    Request request;
    Message message;
    std::byte* data = nullptr;
  };

  /// The `k`-th message of the stream that the member `distance` before this one sends.
  Message message_at(std::int64_t k, int distance) const {
    Message message;
    const std::int64_t per_round = std::int64_t{steps_} * cut_.window;
    const std::int64_t round = k / per_round;
    const std::int64_t in_round = k % per_round;
    message.width = std::min<std::int64_t>(cut_.window, segments_ - round * cut_.window);
    message.step = static_cast<int>(in_round / message.width);
    message.segment = round * cut_.window + in_round % message.width;
    const bool reducing = message.step < reducing_steps_;
    const int passed = reducing ? message.step + 1 : message.step - reducing_steps_;
    message.owner = port_.neighbour(-distance - passed);
    message.elements = cut_.segment(chunk(message.owner), message.segment);
    return message;
  }

  bool post_receives() {
    bool moved = false;
    while (posted_ < messages_ && !receives_.full()) {
      const Message message = message_at(posted_, 1);
      std::byte* data = nullptr;
      Request request;
      if (message.elements.size() > 0) {
        data = target(message);
        if (data == nullptr) break;
        request = port_.receive(data, bytes(message.elements.size()), port_.neighbour(-1));
      }
      receives_.push({request, message, data});
      ++posted_;
      moved = true;
    }
    return moved;
  }

  bool post_sends() {
    bool moved = false;
    while (sent_ < messages_ && !sends_.full() && sent_ - received_ < cut_.lead(port_)) {
      const Message message = message_at(sent_, 0);
      // A segment that is sent on arrived one step before, which is `width` messages earlier in the
      // stream.
      if (message.step > 0 && sent_ - message.width >= received_) break;
      if (message.elements.size() > 0) {
        const std::byte* data = source(message);
        const Request request =
            port_.send(data, bytes(message.elements.size()), port_.neighbour(1));
        sends_.push({request, message, const_cast<std::byte*>(data)});
      }
      ++sent_;
      moved = true;
    }
    return moved;
  }

  bool finish_receives() {
    bool moved = false;
    while (!receives_.empty()) {
      InFlight& first = receives_.front();
      if (first.data != nullptr) {
        if (!port_.test(first.request)) break;
        on_received(first.message, first.data);
      }
      receives_.pop();
      ++received_;
      moved = true;
    }
    return moved;
  }

  bool finish_sends() {
    bool moved = false;
    while (!sends_.empty() && port_.test(sends_.front().request)) {
      on_sent(sends_.front().message, sends_.front().data);
      sends_.pop();
      moved = true;
    }
    return moved;
  }

  std::int64_t count_;
  DType dtype_;
  ReduceOp reduce_;
  int reducing_steps_;
  int steps_;
  std::int64_t segments_;  // of the largest chunk
  std::int64_t messages_;
  std::int64_t posted_ = 0;
  std::int64_t received_ = 0;
  std::int64_t sent_ = 0;  // handed to the transport
  Window<InFlight> sends_;
  Window<InFlight> receives_;
  bool started_ = false;
};

class RingAllGather final : public Ring {
 public:
  RingAllGather(const schedule::Collective& collective, const std::byte* in, std::byte* out,
                const Port& port)
      : Ring(collective, port, false, true), in_(in), out_(out) {}

 private:
  // The first messages are sent from `in`, so that the copy into place overlaps with them.
  void on_start() override {
    std::byte* place = out_ + bytes(own_chunk().begin);
    const std::int64_t size = bytes(own_chunk().size());
    if (place != in_ && size > 0) std::memcpy(place, in_, static_cast<std::size_t>(size));
  }
  const std::byte* source(const Message& message) override {
    if (message.step == 0) return in_ + bytes(message.elements.begin - own_chunk().begin);
    return out_ + bytes(message.elements.begin);
  }
  std::byte* target(const Message& message) override {
    return out_ + bytes(message.elements.begin);
  }
  void on_received(const Message&, std::byte*) override {}

  const std::byte* in_;
  std::byte* out_;
};

class RingAllReduce final : public Ring {
 public:
  RingAllReduce(const schedule::Collective& collective, std::byte* data, const Port& port,
                ScratchPool& scratch)
      : Ring(collective, port, true, true),
        data_(data),
        slots_(scratch, cut_.window, std::min(cut_.segment_bytes(), bytes(chunk(0).size()))) {}

 private:
  const std::byte* source(const Message& message) override {
    return data_ + bytes(message.elements.begin);
  }
  std::byte* target(const Message& message) override {
    if (!reduces(message)) return data_ + bytes(message.elements.begin);
    return slots_.any() ? slots_.take() : nullptr;
  }
  void on_received(const Message& message, std::byte* data) override {
    if (!reduces(message)) return;
    std::byte* mine = data_ + bytes(message.elements.begin);
    combine_into(mine, mine, data, message);
    slots_.give(data);
  }

  std::byte* data_;
  Slots slots_;
};

class RingReduceScatter final : public Ring {
 public:
  RingReduceScatter(const schedule::Collective& collective, const std::byte* in, std::byte* out,
                    const Port& port, ScratchPool& scratch)
      : Ring(collective, port, true, false),
        in_(in),
        out_(out),
        in_place_(out == in + bytes(own_chunk().begin)),
        slots_(scratch, in_place_ || port.size() > 2 ? 2 * cut_.window : 0,
               std::min(cut_.segment_bytes(), bytes(chunk(0).size()))),
        passing_on_(2 * cut_.window) {}

 private:
  const std::byte* source(const Message& message) override {
    if (message.step == 0) return in_ + bytes(message.elements.begin);
    const std::byte* slot = passing_on_.front();
    passing_on_.pop();
    return slot;
  }
  void on_sent(const Message& message, const std::byte* data) override {
    if (message.step > 0) slots_.give(const_cast<std::byte*>(data));
  }
  std::byte* target(const Message& message) override {
    if (last_reduction(message) && !in_place_) return result(message);
    return slots_.any() ? slots_.take() : nullptr;
  }
  void on_received(const Message& message, std::byte* data) override {
    const std::byte* mine = in_ + bytes(message.elements.begin);
    if (!last_reduction(message)) {
      combine_into(data, data, mine, message);
      passing_on_.push(data);
    } else {
      combine_into(result(message), data, mine, message);
      if (in_place_) slots_.give(data);
    }
  }
  std::byte* result(const Message& message) const {
    return out_ + bytes(message.elements.begin - own_chunk().begin);
  }

  const std::byte* in_;
  std::byte* out_;
  bool in_place_;
  Slots slots_;
  Window<std::byte*, 2 * schedule::kLargestWindow>
      passing_on_;  // received and summed, but not sent yet; in stream order
};

}  // namespace

OperationPtr make_ring_all_reduce(const schedule::Collective& collective, const View& data,
                                  const Port& port, ScratchPool& scratch) {
  return std::make_unique<RingAllReduce>(collective, static_cast<std::byte*>(data.data), port,
                                         scratch);
}

OperationPtr make_ring_all_gather(const schedule::Collective& collective, const void* in, void* out,
                                  const Port& port) {
  return std::make_unique<RingAllGather>(collective, static_cast<const std::byte*>(in),
                                         static_cast<std::byte*>(out), port);
}

OperationPtr make_ring_reduce_scatter(const schedule::Collective& collective, const void* in,
                                      void* out, const Port& port, ScratchPool& scratch) {
  return std::make_unique<RingReduceScatter>(collective, static_cast<const std::byte*>(in),
                                             static_cast<std::byte*>(out), port, scratch);
}

}  // namespace fourfold::comm
