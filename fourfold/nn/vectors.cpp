// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/vectors.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/node.hpp"

namespace fourfold::nn {

namespace {

using tensor::MemoryClass;
using tensor::MemoryScope;

/// Tensors that are communicated over one communicator.
struct Bundle {
  const comm::Communicator* comm = nullptr;
  std::vector<std::size_t> items;
};

/// Groups the parameters by communicator, in the order in which the communicators first appear.
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

}  // namespace

Vectors::Vectors(const Mesh& mesh, Parameters parameters)
    : mesh_(&mesh), parameters_(std::move(parameters)) {
  check_parameters(mesh, parameters_, "Vectors");
  for (const ParameterPtr& p : parameters_) {
    if (p->spec().shape.size() != 1) throw InvariantError(p->name() + " is no vector");
  }
}

std::string_view Vectors::layer() const {
  if (parameters_.empty()) return {};
  const std::string& first = parameters_.front()->name();
  const std::string& last = parameters_.back()->name();
  const auto end = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  const std::string_view common =
      std::string_view(first).substr(0, static_cast<std::size_t>(end - first.begin()));
  return common.substr(0, common.rfind('.'));
}

tensor::Gathered Vectors::start_gather() const {
  const LayerScope issuer(layer());
  const MemoryScope scope(MemoryClass::kCommunication);
  tensor::Gathered gathered;
  gathered.tensors.resize(parameters_.size());
  const auto comm_of = [](const Parameter& p) -> const auto& {
    return p.weight_comm();
  };
  for (const Bundle& bundle : bundle(parameters_, comm_of)) {
    std::vector<comm::InOut> list;
    for (const std::size_t i : bundle.items) {
      parameters_[i]->wait_for_values();
      const Tensor shard = parameters_[i]->value().detach();
      if (bundle.comm->size() == 1) {
        gathered.tensors[i] = shard;
      } else {
        Tensor& all = gathered.tensors[i] =
            at::empty({parameters_[i]->padded_rows()}, shard.options());
        gathered.sources.push_back(shard);
        list.push_back({tensor::view(shard), tensor::view(all)});
      }
    }
    if (!list.empty()) gathered.works.push_back(bundle.comm->all_gather(std::move(list)));
  }
  return gathered;
}

bool Vectors::is_whole() const {
  return std::all_of(parameters_.begin(), parameters_.end(),
                     [](const ParameterPtr& p) { return p->is_whole(); });
}

bool Vectors::arriving() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const ParameterPtr& p) { return p->arriving(); });
}

std::int64_t Vectors::gathered_bytes() const {
  std::int64_t sum = 0;
  for (const ParameterPtr& p : parameters_) sum += p->gathered_bytes();
  return sum;
}

namespace {

/// Sums of gradients that are in flight.
struct Reduction {
  std::vector<std::function<void(const Tensor&)>> endings;
  std::vector<Tensor> sources;
  std::vector<Tensor> parts;
  std::vector<comm::Work> works;  // last member: they wait before the tensors are freed

  void finish() {
    for (comm::Work& work : works) work.wait();
    for (std::size_t i = 0; i < parts.size(); ++i) endings[i](parts[i]);
  }
};

}  // namespace

void Vectors::reduce(const std::vector<Tensor>& gradients, const Uses& uses) const {
  const LayerScope issuer(layer());
  const auto priority =
      mesh_->overlap().weight_gradients ? comm::Priority::kBackground : comm::Priority::kUrgent;
  auto reduction = std::make_shared<Reduction>();
  for (const auto& use : uses) reduction->endings.push_back(use->ending());
  reduction->parts.resize(parameters_.size());
  reduction->sources.resize(parameters_.size());
  std::int64_t bytes = 0;
  const auto comm_of = [](const Parameter& p) -> const auto& {
    return p.gradient_comm();
  };
  for (const Bundle& bundle : bundle(parameters_, comm_of)) {
    std::vector<comm::InOut> list;
    for (const std::size_t i : bundle.items) {
      const Parameter& parameter = *parameters_[i];
      const Tensor& own = reduction->sources[i] =
          parameter.own_part(parameter.pad(gradients[i].contiguous()));
      bytes += static_cast<std::int64_t>(own.nbytes());
      if (bundle.comm->size() == 1) {
        reduction->parts[i] = own;
      } else {
        const MemoryScope scope(MemoryClass::kCommunication);
        reduction->parts[i] = at::empty_like(parameter.leaf());
        list.push_back({tensor::view(own), tensor::view(reduction->parts[i])});
      }
    }
    if (!list.empty()) {
      reduction->works.push_back(
          bundle.comm->reduce_scatter(std::move(list), comm::ReduceOp::kSum, priority));
    }
  }
  if (reduction->works.empty()) return reduction->finish();
  tensor::InFlight& in_flight = uses.front()->in_flight();
  in_flight.sums().add(bytes, [reduction] { reduction->finish(); });
  in_flight.sums_issued();
}

std::vector<Tensor> Vectors::gather(tensor::InFlight& in_flight) const {
  tensor::variable_list values;
  Uses uses;
  for (const ParameterPtr& parameter : parameters_) {
    values.push_back(parameter->leaf());
    uses.push_back(parameter->use(in_flight));
  }
  return tensor::node(
      layer(), values,
      [&](const tensor::variable_list&) {
        tensor::variable_list all = in_flight.weights().take(*this);
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = parameters_[i]->trim(all[i]);
        return all;
      },
      [this, uses](const tensor::variable_list& gradients) {
        reduce(gradients, uses);
        return tensor::variable_list(parameters_.size());
      });
}

}  // namespace fourfold::nn
