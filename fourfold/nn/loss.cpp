// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/loss.hpp"

#include <ATen/ops/log.h>
#include <torch/csrc/autograd/variable.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/vocabulary.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

namespace {

/// Reduces over the ranks that have the other columns of the vocabulary.
tensor::Pending over_vocabulary(const comm::Communicator& comm, const Tensor& rows,
                                comm::ReduceOp op) {
  const LayerScope scope("loss");
  return tensor::all_reduce(comm, rows, op);
}

/// What the forward and the backward pass share.
struct LossCall {
  const Mesh* mesh;
  grid::Range here;
  double weight;  // of one token
  Tensor values;  // the memory of the logits: first exponentials, then the gradient
  Tensor sums;    // for each row: the sum of exponentials, and the target's logit
  Tensor targets;
};

variable_list loss_gradient(const LossCall& call, Tensor values, const Tensor& gradient) {
  kernels::softmax_loss_gradient(values, call.sums, call.targets, call.here, call.weight);
  // The gradient is almost always 1, and then the pass over the logits is saved where the host can
  // see it without waiting for a device.
  const bool visible = gradient.is_cpu() && !tensor::on_device(gradient);
  if (!visible || gradient.item<double>() != 1) values.mul_(gradient);
  call.mesh->compute("loss dI", tensor::loop_over(values, 2, 2));
  return {values};
}

}  // namespace

Flow<Tensor> cross_entropy_flow(const Mesh& mesh, const VocabularyTable& table, Tensor logits,
                                Tensor targets, std::int64_t tokens) {
  FOURFOLD_CHECK_EQ(targets.numel(), logits.size(0), "targets of the loss");
  FOURFOLD_CHECK(targets.scalar_type() == at::kLong && targets.is_contiguous());
  FOURFOLD_CHECK(logits.is_contiguous());
  if (targets.is_cpu()) kernels::check_tokens(targets, table.spec().vocabulary);
  const comm::Communicator& comm = mesh.comm(table.logit_axes());
  const auto options = logits.options().dtype(kernels::statistics_type(logits.scalar_type()));
  const auto call = std::make_shared<LossCall>();
  call->mesh = &mesh;
  call->here = table.here();
  call->weight = 1.0 / static_cast<double>(tokens);
  call->values = logits.detach();
  call->targets = targets;

  Tensor largest = at::empty({logits.size(0)}, options);
  kernels::row_maxima(call->values, call->here.size(), largest);
  mesh.compute("loss maxima", tensor::loop_over(call->values, 1, 1));
  tensor::Pending maxima = over_vocabulary(comm, largest, comm::ReduceOp::kMax);
  co_await Turn{maxima.under_way()};

  largest = maxima.wait();
  call->sums = at::empty({2, logits.size(0)}, options);
  kernels::exponentials(call->values, call->here.size(), largest, targets, call->here, call->sums);
  mesh.compute("loss", tensor::loop_over(call->values, 2, 11));
  tensor::Pending sums = over_vocabulary(comm, call->sums, comm::ReduceOp::kSum);
  co_await Turn{sums.under_way()};

  call->sums = sums.wait();
  torch::autograd::impl::bump_version(call->values);  // other uses of the logits fail
  co_return node(
      "loss", {logits},
      [&](const variable_list&) -> variable_list {
        return {at::sub(call->sums[0].log(), call->sums[1]).sum().mul_(call->weight)};
      },
      [call](const variable_list& gradients) {
        FOURFOLD_CHECK(call->values.defined(), "a second backward pass through the loss");
        return loss_gradient(*call, std::exchange(call->values, Tensor()), gradients[0]);
      })[0];
}

Tensor total_loss(const Mesh& mesh, const Tensor& loss, const grid::Axes& axes) {
  const LayerScope scope("loss");
  const Tensor sum = loss.detach().clone();
  return tensor::all_reduce(mesh.join(axes), sum).wait();
}

}  // namespace fourfold::nn
