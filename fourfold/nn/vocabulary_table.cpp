// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/vocabulary_table.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/vocabulary.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::nn {

using tensor::Pending;

double VocabularyTable::flops(const Batch& batch) const {
  const double size = static_cast<double>(spec_.vocabulary) * static_cast<double>(spec_.width);
  return 2 * size * static_cast<double>(batch.samples * batch.context);
}

Flow<Tensor> VocabularyTable::lookup_flow(Tensor tokens, const Pass& pass) const {
  FOURFOLD_CHECK(tokens.scalar_type() == at::kLong && tokens.is_contiguous());
  if (tokens.is_cpu()) kernels::check_tokens(tokens, spec_.vocabulary);
  struct Call {
    std::shared_ptr<Parameter::Use> use;
    Pending rows;
    Pending gradient;
  };
  const auto call = std::make_shared<Call>();
  const at::TensorOptions options = parameter_->leaf().options();
  call->use = parameter_->use(pass.in_flight());
  const variable_list passed = node(
      spec_.name, {parameter_->leaf()},
      [&](const variable_list&) -> variable_list {
        call->rows = start_lookup(tokens, pass.in_flight());
        return {placeholder(options)};
      },
      [this, call, tokens](const variable_list&) -> variable_list {
        add_lookup_gradient(call->gradient.wait(), tokens, *call->use);
        return {Tensor()};
      });
  co_await Turn{call->rows.under_way()};

  co_return node(
      spec_.name, passed,
      [&](const variable_list&) -> variable_list { return {end_lookup(call->rows)}; },
      [this, call, options](const variable_list& gradients) -> variable_list {
        call->gradient = start_lookup_gradient(gradients[0].contiguous());
        return {placeholder(options)};
      })[0];
}

}  // namespace fourfold::nn
