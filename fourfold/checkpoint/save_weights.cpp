// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include <ATen/ops/index_select.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/gpt2_layout.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/formats/safetensors_writer.hpp"

namespace fourfold::checkpoint {

using at::Tensor;
using grid::Axis;

namespace {

formats::Dtype file_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return formats::Dtype::kF64;
    case at::kFloat:
      return formats::Dtype::kF32;
    case at::kBFloat16:
      return formats::Dtype::kBF16;
    default:
      throw InvariantError("parameters are not kept in this type");
  }
}

/// The place of a block in the whole tensor.
Tensor part(const Tensor& whole, const grid::Block& block) {
  Tensor result = whole;
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    const grid::Range& range = block.ranges[d];
    result = result.narrow(static_cast<std::int64_t>(d), range.begin, range.size());
  }
  return result;
}

/// Whether the rank at `coord` sends its shard: the first of those that have the same.
bool sends(const nn::Parameter& parameter, const grid::Coord& coord) {
  for (const Axis axis : parameter.spec().replicas) {
    if (coord[axis] != 0) return false;
  }
  return true;
}

/// The whole parameter on rank 0, an undefined tensor elsewhere.
Tensor bring_together(const tensor::Mesh& mesh, const nn::Parameter& parameter) {
  const comm::Communicator& everyone = mesh.everyone();
  const Tensor own = parameter.value().detach();
  if (everyone.rank() != 0) {
    if (sends(parameter, mesh.coord())) everyone.send(tensor::view(own), 0).wait();
    return {};
  }
  const grid::Shape& shape = parameter.spec().shape;
  Tensor whole = at::empty(shape, own.options());
  Tensor received = at::empty_like(own);
  for (int rank = 0; rank < everyone.size(); ++rank) {
    const grid::Coord coord = mesh.grid().coord_of(rank);
    if (!sends(parameter, coord)) continue;
    if (rank != 0) everyone.recv(tensor::view(received), rank).wait();
    const grid::Block block = parameter.layout().block(shape, mesh.grid(), coord);
    part(whole, block).copy_(nn::real_part(rank == 0 ? own : received, block));
  }
  return whole;
}

/// Our tensor as the file has it.
Tensor to_file_order(const Tensor& ours, const FileTensor& file) {
  Tensor result = ours;
  if (!file.order.empty()) {
    // The file's row i is our row from[i].
    Tensor from = at::empty({result.size(0)}, at::kLong);
    for (std::size_t i = 0; i < file.order.size(); ++i) {
      from.data_ptr<std::int64_t>()[file.order[i]] = static_cast<std::int64_t>(i);
    }
    result = result.index_select(0, from);
  }
  if (file.transposed) result = result.t();
  return result.contiguous();
}

}  // namespace

void save_weights(const tensor::Mesh& mesh, const model::Gpt& gpt, const std::string& folder) {
  struct Item {
    FileTensor file;
    nn::ParameterPtr parameter;
  };
  std::map<std::string, Item> items;
  std::vector<formats::TensorSpec> specs;
  for (const nn::ParameterPtr& parameter : gpt.parameters()) {
    FileTensor file = file_tensor(gpt.spec(), parameter->name(), parameter->spec().shape);
    if (!file.name.starts_with("lm_head.")) file.name = name_prefix(gpt.spec()) + file.name;
    // Vectors may be kept in a wider type; a file of one type is what others expect.
    specs.push_back({file.name, file_type(gpt.spec().precision.compute), file.shape});
    items[file.name] = {file, parameter};
  }
  // All ranks go through the tensors in the order of the file.
  std::optional<formats::SafetensorsWriter> writer;
  if (mesh.everyone().rank() == 0) {
    writer.emplace(folder + "/model.safetensors", specs, formats::Metadata{});
  }
  for (const auto& [name, item] : items) {
    const Tensor whole = bring_together(mesh, *item.parameter);
    if (!writer) continue;
    FOURFOLD_CHECK(writer->next() != nullptr && writer->next()->name == name,
                   "the file has another order than ours");
    const Tensor data = to_file_order(whole, item.file).to(gpt.spec().precision.compute);
    writer->write(name, {static_cast<const std::byte*>(data.data_ptr()), data.nbytes()});
  }
  if (writer) writer->commit();
}

}  // namespace fourfold::checkpoint
