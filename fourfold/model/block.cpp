// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/block.hpp"

#include "fourfold/nn/checkpoint.hpp"

namespace fourfold::model {

tensor::GatherOrder Block::gatherables() const {
  tensor::GatherOrder all = {bundle_.get()};
  for (const nn::ParameterPtr& weight : weights()) all.push_back(weight.get());
  return all;
}

std::vector<Tensor> Block::checkpointed(const std::vector<Tensor>& hidden,
                                        const std::vector<nn::Batch>& parts,
                                        const nn::Pass& outer) const {
  std::vector<Tensor> inputs = hidden;
  const std::vector<Tensor> vectors = bundle_->gather(outer.in_flight());
  inputs.insert(inputs.end(), vectors.begin(), vectors.end());
  return nn::checkpoint(
      [this, parts, in_flight = &outer.in_flight(),
       training = outer.training()](const std::vector<Tensor>& in) {
        const auto first_vector = in.begin() + static_cast<std::ptrdiff_t>(parts.size());
        nn::Pass pass(*in_flight, training);
        pass.take(*bundle_, {first_vector, in.end()});
        std::vector<nn::Flow<Tensor>> flows;
        for (std::size_t i = 0; i < parts.size(); ++i) {
          flows.push_back(flow(in[i], parts[i], pass));
        }
        return nn::interleave(std::move(flows));
      },
      inputs);
}

}  // namespace fourfold::model
