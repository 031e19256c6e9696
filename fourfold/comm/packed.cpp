// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/packed.hpp"

#include <cstring>
#include <utility>

namespace fourfold::comm {

namespace {

using schedule::Op;

class Packed final : public Operation {
 public:
  Packed(const schedule::Collective& collective, Buffers list, const Port& port,
         ScratchPool& scratch)
      : list_(std::move(list)),
        bytes_(collective.payload().value()),
        ranks_(port.size()),
        writes_result_(collective.op != Op::kReduce || collective.root == port.index()) {
    const bool in_place = collective.op == Op::kAllReduce || collective.op == Op::kBroadcast;
    in_blocks_ = collective.op == Op::kReduceScatter ? ranks_ : 1;
    out_blocks_ = collective.op == Op::kAllGather ? ranks_ : 1;
    // Only the root needs the input of a broadcast, but packing it on other ranks does no harm.
    const std::int64_t in_bytes = collective.op == Op::kAllGather ? bytes_ / ranks_ : bytes_;
    const std::int64_t out_bytes = collective.op == Op::kReduceScatter ? bytes_ / ranks_ : bytes_;
    in_ = scratch.take(in_bytes);
    if (!in_place) out_ = scratch.take(out_bytes);
    const std::int64_t size = schedule::size_of(collective.dtype);
    const InOut buffers{{in_.data(), in_bytes / size, collective.dtype},
                        {result(), out_bytes / size, collective.dtype}};
    inner_ = make_operation(collective, buffers, port, scratch);
  }

  bool advance() override {
    if (!std::exchange(packed_, true)) pack();
    if (!inner_->advance()) return false;
    if (writes_result_) unpack();
    return true;
  }

  int awaited() const override { return inner_->awaited(); }

 private:
  std::byte* result() const { return out_.data() != nullptr ? out_.data() : in_.data(); }

  void pack() {
    std::byte* to = in_.data();
    for (int block = 0; block < in_blocks_; ++block) {
      for (const InOut& item : list_) {
        const std::int64_t size = item.in.bytes() / in_blocks_;
        copy(to, static_cast<const std::byte*>(item.in.data) + block * size, size);
        to += size;
      }
    }
  }

  void unpack() {
    const std::byte* from = result();
    for (int block = 0; block < out_blocks_; ++block) {
      for (const InOut& item : list_) {
        const std::int64_t size = item.out.bytes() / out_blocks_;
        copy(static_cast<std::byte*>(item.out.data) + block * size, from, size);
        from += size;
      }
    }
  }

  static void copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  Buffers list_;
  std::int64_t bytes_;
  int ranks_;
  bool writes_result_;
  int in_blocks_ = 1;
  int out_blocks_ = 1;
  ScratchPool::Block in_;
  ScratchPool::Block out_;
  OperationPtr inner_;
  bool packed_ = false;
};

}  // namespace

OperationPtr make_packed(const schedule::Collective& collective, Buffers list, const Port& port,
                         ScratchPool& scratch) {
  return std::make_unique<Packed>(collective, std::move(list), port, scratch);
}

}  // namespace fourfold::comm
