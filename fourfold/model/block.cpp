// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/block.hpp"

#include "fourfold/nn/checkpoint.hpp"

namespace fourfold::model {

tensor::GatherOrder Bundled::gatherables() const {
  tensor::GatherOrder all = {bundle_.get()};
  for (const nn::ParameterPtr& weight : weights()) all.push_back(weight.get());
  return all;
}

std::vector<Tensor> Bundled::checkpointed_flows(std::vector<Tensor> inputs, Flows flows,
                                                const nn::Pass& outer) const {
  const auto count = static_cast<std::ptrdiff_t>(inputs.size());
  const std::vector<Tensor> vectors = bundle_->gather(outer.in_flight());
  inputs.insert(inputs.end(), vectors.begin(), vectors.end());
  return nn::checkpoint(
      [this, count, flows = std::move(flows), in_flight = &outer.in_flight(),
       training = outer.training()](const std::vector<Tensor>& in) {
        nn::Pass pass(*in_flight, training);
        pass.take(*bundle_, {in.begin() + count, in.end()});
        return nn::interleave(flows({in.begin(), in.begin() + count}, pass));
      },
      inputs);
}

std::vector<Tensor> Block::checkpointed(const std::vector<Tensor>& hidden,
                                        const std::vector<nn::Batch>& parts,
                                        const nn::Pass& pass) const {
  const auto flows = [this, parts](const std::vector<Tensor>& in, const nn::Pass& inner) {
    std::vector<nn::Flow<Tensor>> all;
    for (std::size_t i = 0; i < parts.size(); ++i) all.push_back(flow(in[i], parts[i], inner));
    return all;
  };
  return checkpointed_flows(hidden, flows, pass);
}

}  // namespace fourfold::model
