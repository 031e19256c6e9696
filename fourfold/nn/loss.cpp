// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/loss.hpp"

#include <ATen/ops/log.h>
#include <torch/csrc/autograd/variable.h>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/function.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/vocabulary_kernels.hpp"

namespace fourfold::nn {

using grid::Axis;

namespace {

/// What the backward pass needs to know.
struct LossInfo {
  const Mesh* mesh;
  grid::Range here;
  double weight;  // of one token
};

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets,
                        const LossInfo& info) {
    keep(context, info);
    const Mesh& mesh = *info.mesh;
    const comm::Communicator& comm = mesh.comm({Axis::kY, Axis::kX});
    const auto options = logits.options().dtype(tensor::statistics_type(logits.scalar_type()));
    Tensor values = logits.detach();
    Tensor largest = at::empty({logits.size(0)}, options);
    tensor::row_maxima(values, info.here.size(), largest);
    largest = tensor::all_reduce(comm, largest, comm::ReduceOp::kMax).wait();
    Tensor sums = at::empty({2, logits.size(0)}, options);
    tensor::exponentials(values, info.here.size(), largest, targets, info.here, sums);
    mesh.compute("loss", 12.0 * static_cast<double>(logits.numel()),
                 3 * static_cast<std::int64_t>(logits.nbytes()));
    sums = tensor::all_reduce(comm, sums).wait();
    torch::autograd::impl::bump_version(values);  // whoever kept the logits finds out
    context->save_for_backward({values, sums, targets});
    return at::sub(sums[0].log(), sums[1]).sum().mul_(info.weight);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& info = kept<LossInfo>(context);
    const auto saved = context->get_saved_variables();
    Tensor values = saved[0].detach();
    tensor::softmax_loss_gradient(values, saved[1], saved[2], info.here, info.weight);
    // Almost always it is 1, and then the pass over the logits is saved.
    if (!values.is_meta() && gradients[0].item<double>() != 1) values.mul_(gradients[0]);
    torch::autograd::impl::bump_version(values);  // and so does a second backward pass
    info.mesh->compute("loss dI", 2.0 * static_cast<double>(values.numel()),
                       2 * static_cast<std::int64_t>(values.nbytes()));
    return {values, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor cross_entropy(const Mesh& mesh, const TokenTable& table, const Tensor& logits,
                     const Tensor& targets, std::int64_t tokens) {
  FOURFOLD_CHECK_EQ(targets.numel(), logits.size(0), "targets of the loss");
  FOURFOLD_CHECK(targets.scalar_type() == at::kLong && targets.is_contiguous());
  FOURFOLD_CHECK(logits.is_contiguous());
  tensor::check_tokens(targets, table.spec().vocabulary);
  return CrossEntropy::apply(logits, targets,
                             LossInfo{&mesh, table.here(), 1.0 / static_cast<double>(tokens)});
}

Tensor total_loss(const Mesh& mesh, const Tensor& loss) {
  const Tensor sum = loss.detach().clone();
  return tensor::all_reduce(mesh.comm({Axis::kData, Axis::kZ}), sum).wait();
}

}  // namespace fourfold::nn
