// A collective under way: a state machine over point-to-point messages that never blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/buffer.hpp"
#include "fourfold/comm/scratch.hpp"
#include "fourfold/comm/transport.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::comm {

/// Connects an operation to its peers. Peers are addressed by their index in the group, all
/// messages have one tag, and what is sent is counted.
class Port {
 public:
  /// `held` is read whenever the operation is about to send.
  Port(Transport& transport, const grid::Group& group, schedule::Reach reach, int tag,
       schedule::Traffic& sent, const bool& held)
      : transport_(&transport),
        group_(&group),
        reach_(reach),
        tag_(tag),
        sent_(&sent),
        held_(&held) {}

  int size() const { return group_->size(); }
  int index() const { return group_->index; }
  schedule::Reach reach() const { return reach_; }
  /// The index of the member `distance` after this one, around the ring.
  int neighbour(int distance) const { return ((index() + distance) % size() + size()) % size(); }
  /// Whether the operation is held back: another operation needs the link more, so this one may
  /// have at most one message in flight.
  bool held() const { return *held_; }
  int world_rank(int index) const { return group_->members[static_cast<std::size_t>(index)]; }

  Request send(const void* data, std::int64_t bytes, int peer) const {
    sent_->bytes += Bytes(bytes);
    ++sent_->messages;
    return transport_->send({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)},
                            world_rank(peer), tag_);
  }
  Request receive(void* data, std::int64_t bytes, int peer) const {
    return transport_->receive({static_cast<std::byte*>(data), static_cast<std::size_t>(bytes)},
                               world_rank(peer), tag_);
  }
  bool test(Request& request) const { return transport_->test(request); }

 private:
  Transport* transport_;
  const grid::Group* group_;
  schedule::Reach reach_;
  int tag_;
  schedule::Traffic* sent_;
  const bool* held_;
};

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Advances the operation as far as possible without waiting. True when the operation is done.
  virtual bool advance() = 0;

  /// The group index of the rank whose message is needed next, or -1.
  virtual int awaited() const = 0;
};

using OperationPtr = std::unique_ptr<Operation>;

/// The state machine of `collective` for this rank, by the algorithm that `schedule::algorithm_of`
/// names. The group must have more than one member. In-place operations only use `out`, and a
/// barrier uses no buffers. Several buffers are packed into one.
OperationPtr make_operation(const schedule::Collective& collective, const Buffers& buffers,
                            const Port& port, ScratchPool& scratch);
OperationPtr make_operation(const schedule::Collective& collective, const InOut& buffers,
                            const Port& port, ScratchPool& scratch);

/// Does at once what the operation means in a group of one.
void run_alone(const schedule::Collective& collective, const InOut& buffers);

/// A short queue of messages in flight, oldest first, stored inside the object.
template <class T, int kLargest = schedule::kLargestWindow>
class Window {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  explicit Window(int capacity) : capacity_(capacity) { FOURFOLD_CHECK(capacity <= kLargest); }

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == capacity_; }
  int size() const { return size_; }
  T& front() { return *at(first_); }
  const T& front() const { return *at(first_); }
  void push(const T& item) { std::construct_at(at((first_ + size_++) % kLargest), item); }
  void pop() {
    first_ = (first_ + 1) % kLargest;
    --size_;
  }

 private:
  T* at(int index) { return reinterpret_cast<T*>(items_.data()) + index; }
  const T* at(int index) const { return reinterpret_cast<const T*>(items_.data()) + index; }

  // This is not an array of T: operations are made often, and setting it to zero would take a good
  // part of that time.
  alignas(T) std::array<std::byte, kLargest * sizeof(T)> items_;
  int capacity_;
  int first_ = 0;
  int size_ = 0;
};

/// Pieces of scratch memory of one size that are taken and given back.
class Slots {
 public:
  Slots(ScratchPool& pool, int count, std::int64_t bytes);

  bool any() const { return !free_.empty(); }
  std::byte* take();
  void give(std::byte* slot) { free_.push_back(slot); }

 private:
  ScratchPool::Block block_;
  std::vector<std::byte*> free_;
};

/// How an operation cuts a block into segments.
struct Cut {
  std::int64_t elements = 1;  ///< the most elements that a segment holds
  std::int64_t element_size = 1;
  int window = 1;

  Cut(const schedule::Collective& collective, schedule::Reach reach);

  std::int64_t segment_bytes() const { return elements * element_size; }
  std::int64_t segments(std::int64_t count) const { return (count + elements - 1) / elements; }
  /// Segment `index` of `chunk`. It is empty beyond the end of the chunk.
  schedule::Chunk segment(const schedule::Chunk& chunk, std::int64_t index) const;

  /// How many more messages a member may have sent than received, in an operation in which all
  /// members send and receive alike. With this limit the member that is furthest behind never has
  /// to wait. A library may accept a message before the receiver asks for it, and buffer it; the
  /// limit keeps the amount of such data in front of other messages small.
  std::int64_t lead(const Port& port) const { return port.held() ? 1 : window; }
};

/// Runs operations one after the other, as one operation.
class Sequence final : public Operation {
 public:
  explicit Sequence(std::vector<OperationPtr> parts) : parts_(std::move(parts)) {}
  bool advance() override;
  int awaited() const override;

 private:
  std::vector<OperationPtr> parts_;
  std::size_t at_ = 0;
};

}  // namespace fourfold::comm
