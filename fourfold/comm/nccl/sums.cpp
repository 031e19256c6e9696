// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/nccl/sums.hpp"

#include <vector>

#include "fourfold/comm/nccl/communicators.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::comm::nccl {

namespace {

using schedule::Op;

/// Memory that belongs to the stream: it is there for what the stream is given until it is
/// destroyed.
class Scratch {
 public:
  Scratch(const ScratchMemory& from, std::int64_t elements, Stream stream)
      : from_(&from), stream_(stream) {
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(BFloat16);
    if (bytes > 0) memory_ = from.take(bytes, stream);
  }
  Scratch(Scratch&& other) noexcept
      : from_(other.from_),
        stream_(other.stream_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    if (memory_ != nullptr) from_->give_back(memory_, stream_);
  }

  BFloat16* data() const { return static_cast<BFloat16*>(memory_); }

 private:
  const ScratchMemory* from_;
  Stream stream_;
  void* memory_ = nullptr;
};

/// One tensor of the operation.
struct Tensor {
  const BFloat16* in = nullptr;
  std::int64_t count = 0;
  BFloat16* result = nullptr;  ///< of the rank's own chunk
  BFloat16* whole = nullptr;   ///< where the result is gathered; null: nowhere
  Scratch parts;               ///< the own chunk of the other members, the one before first
  Scratch own;                 ///< for the result, if it has no other place
};

class Sum {
 public:
  Sum(const Api& api, const ScratchMemory& memory, const schedule::Collective& collective,
      const Route& route, const Grouped& grouped)
      : api_(api), memory_(memory), collective_(collective), route_(route), grouped_(grouped) {}

  void run(const Buffers& buffers) {
    for (const InOut& item : buffers) {
      if (item.in.count > 0) add(item);
    }
    if (tensors_.empty()) return;
    grouped_([&] {
      for (const Tensor& tensor : tensors_) exchange(tensor);
    });
    for (const Tensor& tensor : tensors_) sum(tensor);
    if (collective_.op == Op::kReduceScatter) return;
    grouped_([&] {
      for (const Tensor& tensor : tensors_) gather(tensor);
    });
  }

 private:
  schedule::Chunk chunk(const Tensor& tensor, int index) const {
    return schedule::chunk_of(tensor.count, route_.size, index);
  }

  void add(const InOut& item) {
    const auto mine = schedule::chunk_of(item.in.count, route_.size, route_.index);
    const bool has_whole = collective_.op == Op::kAllReduce ||
                           (collective_.op == Op::kReduce && collective_.root == route_.index);
    const bool needs_own = collective_.op == Op::kReduce && !has_whole;
    auto* out = static_cast<BFloat16*>(item.out.data);
    Tensor tensor{static_cast<const BFloat16*>(item.in.data),
                  item.in.count,
                  out,
                  has_whole ? out : nullptr,
                  Scratch(memory_, (route_.size - 1) * mine.size(), route_.stream),
                  Scratch(memory_, needs_own ? mine.size() : 0, route_.stream)};
    if (needs_own) tensor.result = tensor.own.data();
    if (has_whole) tensor.result = out + mine.begin;
    tensors_.push_back(std::move(tensor));
  }

  void send(const BFloat16* data, std::int64_t count, int peer) const {
    if (count == 0) return;
    check_nccl(api_,
               api_.send(data, static_cast<std::size_t>(count), kBFloat16, peer, route_.comm,
                         route_.stream),
               "send");
  }
  void receive(BFloat16* data, std::int64_t count, int peer) const {
    if (count == 0) return;
    check_nccl(api_,
               api_.recv(data, static_cast<std::size_t>(count), kBFloat16, peer, route_.comm,
                         route_.stream),
               "receive");
  }

  void exchange(const Tensor& tensor) const {
    const std::int64_t mine = chunk(tensor, route_.index).size();
    for (int back = 1; back < route_.size; ++back) {
      const int peer = (route_.index - back + route_.size) % route_.size;
      const auto theirs = chunk(tensor, peer);
      send(tensor.in + theirs.begin, theirs.size(), peer);
      receive(tensor.parts.data() + (back - 1) * mine, mine, peer);
    }
  }

  void sum(const Tensor& tensor) const {
    const auto mine = chunk(tensor, route_.index);
    if (mine.size() == 0) return;
    const Bf16Sum sum{tensor.in + mine.begin, tensor.parts.data(), tensor.result, mine.size(),
                      route_.size - 1};
    check_cuda(api_, api_.sum_bf16(sum, route_.stream), "sum");
  }

  /// Brings the chunks to all members, or to the root.
  void gather(const Tensor& tensor) const {
    const auto mine = chunk(tensor, route_.index);
    if (collective_.op == Op::kAllReduce && tensor.count % route_.size == 0) {
      check_nccl(api_,
                 api_.all_gather(tensor.result, tensor.whole, static_cast<std::size_t>(mine.size()),
                                 kBFloat16, route_.comm, route_.stream),
                 "all_gather");
      return;
    }
    for (int distance = 1; distance < route_.size; ++distance) {
      const int peer = (route_.index + distance) % route_.size;
      const bool to_peer = collective_.op == Op::kAllReduce || collective_.root == peer;
      const auto theirs = chunk(tensor, peer);
      if (to_peer) send(tensor.result, mine.size(), peer);
      if (tensor.whole != nullptr) receive(tensor.whole + theirs.begin, theirs.size(), peer);
    }
  }

  const Api& api_;
  const ScratchMemory& memory_;
  const schedule::Collective& collective_;
  const Route& route_;
  const Grouped& grouped_;
  std::vector<Tensor> tensors_;
};

}  // namespace

void sum_rounded_once(const Api& api, const ScratchMemory& memory,
                      const schedule::Collective& collective, const Buffers& buffers,
                      const Route& route, const Grouped& grouped) {
  Sum(api, memory, collective, route, grouped).run(buffers);
}

}  // namespace fourfold::comm::nccl
