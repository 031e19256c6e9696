// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/vectors.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/function.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::nn {

namespace {

using tensor::MemoryClass;
using tensor::MemoryScope;

/// Tensors that travel over one communicator.
struct Bundle {
  const comm::Communicator* comm = nullptr;
  std::vector<std::size_t> items;
};

/// Groups the parameters by communicator, in the order in which these come up.
template <class CommOf>
std::vector<Bundle> bundle(const Parameters& parameters, const CommOf& comm_of) {
  std::vector<Bundle> bundles;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const comm::Communicator& comm = comm_of(*parameters[i]);
    auto found = bundles.begin();
    while (found != bundles.end() && found->comm != &comm) ++found;
    if (found == bundles.end()) found = bundles.insert(found, {&comm, {}});
    found->items.push_back(i);
  }
  return bundles;
}

std::vector<Tensor> gather(const Parameters& parameters) {
  const MemoryScope scope(MemoryClass::kCommunication);
  std::vector<Tensor> all(parameters.size());
  std::vector<comm::Work> works;
  const auto comm_of = [](const Parameter& p) -> const auto& {
    return p.weight_comm();
  };
  for (const Bundle& bundle : bundle(parameters, comm_of)) {
    std::vector<comm::InOut> list;
    for (const std::size_t i : bundle.items) {
      const Tensor shard = parameters[i]->value().detach();
      if (bundle.comm->size() == 1) {
        all[i] = shard;
      } else {
        all[i] = at::empty({parameters[i]->padded_rows()}, shard.options());
        list.push_back({tensor::view(shard), tensor::view(all[i])});
      }
    }
    if (!list.empty()) works.push_back(bundle.comm->all_gather(std::move(list)));
  }
  for (comm::Work& work : works) work.wait();
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = parameters[i]->trim(all[i]);
  return all;
}

void reduce(const Parameters& parameters, const variable_list& gradients) {
  std::vector<Tensor> parts(parameters.size());
  std::vector<Tensor> sources(parameters.size());  // until they have been sent
  std::vector<comm::Work> works;
  const auto comm_of = [](const Parameter& p) -> const auto& {
    return p.gradient_comm();
  };
  for (const Bundle& bundle : bundle(parameters, comm_of)) {
    std::vector<comm::InOut> list;
    for (const std::size_t i : bundle.items) {
      const Parameter& parameter = *parameters[i];
      const Tensor& own = sources[i] = parameter.own_part(parameter.pad(gradients[i].contiguous()));
      if (bundle.comm->size() == 1) {
        parts[i] = own;
      } else {
        const MemoryScope scope(MemoryClass::kCommunication);
        parts[i] = at::empty_like(parameter.value());
        list.push_back({tensor::view(own), tensor::view(parts[i])});
      }
    }
    if (!list.empty()) works.push_back(bundle.comm->reduce_scatter(std::move(list)));
  }
  for (comm::Work& work : works) work.wait();
  for (std::size_t i = 0; i < parts.size(); ++i) parameters[i]->accumulate(parts[i]);
}

}  // namespace

class GatherVectors : public torch::autograd::Function<GatherVectors> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList /*values*/,
                               const Vectors* vectors) {
    remember(context, *vectors);
    variable_list all = gather(vectors->parameters());
    // What was not gathered is the parameter itself, and an output must be a tensor of its own.
    for (Tensor& one : all) one = one.detach();
    return all;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Vectors& vectors = remembered<Vectors>(context);
    reduce(vectors.parameters(), gradients);
    return variable_list(vectors.parameters().size() + 1);
  }
};

std::vector<Tensor> Vectors::gather() const {
  std::vector<Tensor> values;
  for (const ParameterPtr& parameter : parameters_) values.push_back(parameter->value());
  return GatherVectors::apply(at::TensorList(values), this);
}

}  // namespace fourfold::nn
