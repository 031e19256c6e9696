// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/channel_swap.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/columns.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using tensor::Pending;

namespace {

const Axes& both() {
  static const Axes axes = {Axis::kX, Axis::kY};
  return axes;
}

}  // namespace

/// What the nodes of one swap share.
struct ChannelSwap::Call {
  std::vector<Pending> blocks;    ///< on their way to another rank
  std::vector<Pending> gathered;  ///< forward: along the first axis; backward: along the second
};

/// The caller holds this, and the nodes hold the call alone: a node that held its own result would
/// never be freed.
class ChannelSwap::Begun {
 public:
  std::shared_ptr<Call> call;
  variable_list passed;
  at::TensorOptions options;
  std::size_t count = 0;
};

ChannelSwap::ChannelSwap(const Mesh& mesh, const ChannelSwapSpec& spec)
    : Layer(mesh, spec.name),
      spec_(spec),
      first_(spec.transposed ? Axis::kY : Axis::kX),
      second_(spec.transposed ? Axis::kX : Axis::kY) {
  for (const Axes& axes : {both(), Axes(first_), Axes(second_)}) mesh.join(axes);
  const grid::Group& group = mesh.comm(both()).group();
  const int before = mesh.index({first_, second_});
  const int after = mesh.index({second_, first_});
  for (int i = 0; i < group.size(); ++i) {
    const grid::Coord coord = mesh.grid().coord_of(group.members[static_cast<std::size_t>(i)]);
    if (mesh.grid().index_along({second_, first_}, coord) == before) to_ = i;
    if (mesh.grid().index_along({first_, second_}, coord) == after) from_ = i;
  }
}

bool ChannelSwap::moves() const {
  return to_ != mesh_->comm(both()).rank();
}

/// Blocks go to the rank that takes them, or back. Some ranks keep theirs.
Pending ChannelSwap::transfer(const Tensor& block, bool back) const {
  if (!moves()) return Pending(block);
  Tensor received = at::empty_like(block);
  const int to = back ? from_ : to_;
  const int from = back ? to_ : from_;
  comm::Work work =
      mesh_->comm(both()).transfer({{tensor::view(block), to}}, {{tensor::view(received), from}});
  Pending pending(block, std::move(received), std::move(work));
  if (!mesh_->overlap().halves) pending.finish();
  return pending;
}

std::vector<Pending> ChannelSwap::transfer_all(const variable_list& rows, Axis split,
                                               bool back) const {
  const LayerScope scope(name());
  std::vector<Pending> blocks;
  for (const Tensor& one : rows) {
    FOURFOLD_CHECK_EQ(one.dim(), 2, name(), ": images are matrices");
    const Tensor whole = one.detach().contiguous();
    blocks.push_back(transfer(replicated() ? own_columns(*mesh_, whole, split) : whole, back));
  }
  return blocks;
}

std::vector<Pending> ChannelSwap::gather_all(std::vector<Pending>& blocks, Axis along) const {
  if (!replicated()) return std::exchange(blocks, {});  // still under way
  const LayerScope scope(name());
  std::vector<Pending> gathered;
  for (Pending& block : blocks) {
    gathered.push_back(tensor::all_gather(mesh_->comm(along), block.wait()));
  }
  blocks.clear();
  return gathered;
}

variable_list ChannelSwap::merge_all(std::vector<Pending>& gathered, Axis along) const {
  const LayerScope scope(name());
  variable_list results;
  for (Pending& one : gathered) {
    results.push_back(merge_columns(*mesh_, one.wait(), replicated() ? mesh_->size(along) : 1));
  }
  gathered.clear();
  return results;
}

std::shared_ptr<ChannelSwap::Begun> ChannelSwap::begin(const std::vector<Tensor>& inputs) const {
  const auto begun = std::make_shared<Begun>();
  const auto call = begun->call = std::make_shared<Call>();
  begun->options = inputs.front().options();
  begun->count = inputs.size();
  begun->passed = node(
      name(), inputs,
      [&](const variable_list& in) -> variable_list {
        call->blocks = transfer_all(in, second_, false);
        return {placeholder(begun->options)};
      },
      [this, call](const variable_list&) -> variable_list {
        return merge_all(call->gathered, second_);
      });
  return begun;
}

Flow<std::vector<Tensor>> ChannelSwap::end(std::shared_ptr<Begun> begun) const {
  const std::shared_ptr<Call> call = std::move(begun->call);
  FOURFOLD_CHECK(call, name(), ": a swap is ended once");
  const at::TensorOptions options = begun->options;
  variable_list passed = node(
      name(), std::exchange(begun->passed, {}),
      [&](const variable_list&) -> variable_list {
        call->gathered = gather_all(call->blocks, first_);
        return {placeholder(options)};
      },
      [this, call, options](const variable_list&) -> variable_list {
        call->gathered = gather_all(call->blocks, second_);
        return {placeholder(options)};
      });
  // Whether there is a turn must not depend on the rank: the ranks of a group issue their
  // operations in one order.
  co_await Turn{replicated() && mesh_->size(first_) > 1};

  co_return node(
      name(), passed,
      [&](const variable_list&) -> variable_list { return merge_all(call->gathered, first_); },
      [this, call, options](const variable_list& gradients) -> variable_list {
        call->blocks = transfer_all(gradients, first_, true);
        return {placeholder(options)};
      });
}

}  // namespace fourfold::nn
