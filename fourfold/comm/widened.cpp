// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/widened.hpp"

#include <utility>

#include "fourfold/comm/arithmetic.hpp"

namespace fourfold::comm {

namespace {

using schedule::Op;

class Widened final : public Operation {
 public:
  Widened(const schedule::Collective& collective, const InOut& buffers, const Port& port,
          ScratchPool& scratch)
      : in_(static_cast<const BFloat16*>(buffers.in.data)),
        out_(static_cast<BFloat16*>(buffers.out.data)),
        in_count_(collective.count),
        out_count_(collective.count) {
    if (collective.op == Op::kAllReduce) in_ = out_;
    if (collective.op == Op::kReduceScatter) {
      out_count_ = schedule::chunk_of(collective.count, port.size(), port.index()).size();
    }
    if (collective.op == Op::kReduce && collective.root != port.index()) out_count_ = 0;
    const auto size = static_cast<std::int64_t>(sizeof(float));
    wide_ = scratch.take(in_count_ * size);
    // These operations read an element of the input before they write the result to its place, so
    // both may use the same memory.
    const View in{wide_.data(), in_count_, DType::kF32};
    const View out{wide_.data(), out_count_, DType::kF32};
    inner_ = make_operation(schedule::in_f32(collective), InOut{in, out}, port, scratch);
  }

  bool advance() override {
    auto* wide = reinterpret_cast<float*>(wide_.data());
    if (!std::exchange(widened_, true)) widen(wide, in_, in_count_);
    if (!inner_->advance()) return false;
    round_to_bfloat16(out_, wide, out_count_);
    return true;
  }

  int awaited() const override { return inner_->awaited(); }

 private:
  const BFloat16* in_;
  BFloat16* out_;
  std::int64_t in_count_;
  std::int64_t out_count_;
  ScratchPool::Block wide_;  // the input, then the result
  OperationPtr inner_;
  bool widened_ = false;
};

}  // namespace

OperationPtr make_widened(const schedule::Collective& collective, const InOut& buffers,
                          const Port& port, ScratchPool& scratch) {
  return std::make_unique<Widened>(collective, buffers, port, scratch);
}

}  // namespace fourfold::comm
