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
bool sends(const model::Owned& owned, const grid::Coord& coord) {
  for (const Axis axis : owned.spec.replicas) {
    if (coord[axis] != 0) return false;
  }
  return coord[Axis::kPipe] == owned.place;
}

/// The whole parameter on rank 0, an undefined tensor elsewhere. `here` is this rank's part, null
/// where it has none.
Tensor bring_together(const tensor::Mesh& mesh, const model::Owned& owned,
                      const nn::ParameterPtr& here) {
  const comm::Communicator& everyone = mesh.everyone();
  if (everyone.rank() != 0) {
    if (sends(owned, mesh.coord())) everyone.send(tensor::view(here->value().detach()), 0).wait();
    return {};
  }
  const grid::Shape& shape = owned.spec.shape;
  const grid::Layout layout = owned.spec.layout();
  Tensor whole = at::empty(shape, owned.type);
  const Tensor received = at::empty(layout.shard_shape(shape, mesh.grid()), owned.type);
  for (int rank = 0; rank < everyone.size(); ++rank) {
    const grid::Coord coord = mesh.grid().coord_of(rank);
    if (!sends(owned, coord)) continue;
    if (rank != 0) everyone.recv(tensor::view(received), rank).wait();
    const grid::Block block = layout.block(shape, mesh.grid(), coord);
    part(whole, block).copy_(nn::real_part(rank == 0 ? here->value().detach() : received, block));
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

void save_weights(const tensor::Mesh& mesh, const model::Stages& stages,
                  const std::string& folder) {
  struct Item {
    FileTensor file;
    model::Owned owned;
  };
  const model::GptSpec& model = stages.spec();
  std::map<std::string, Item> items;
  std::vector<formats::TensorSpec> specs;
  for (const model::Owned& owned : model::owners(mesh, stages)) {
    FileTensor file = file_tensor(model, owned.spec.name, owned.spec.shape);
    if (!file.name.starts_with("lm_head.")) file.name = name_prefix(model) + file.name;
    // Vectors may be kept in a wider type; a file of one type is what others expect.
    specs.push_back({file.name, file_type(model.precision.compute), file.shape});
    items[file.name] = {file, owned};
  }
  std::map<std::string, nn::ParameterPtr> here;
  for (const nn::ParameterPtr& parameter : stages.parameters()) here[parameter->name()] = parameter;
  // All ranks go through the tensors in the order of the file.
  std::optional<comm::Phase> phase;
  std::optional<formats::SafetensorsWriter> writer;
  if (mesh.everyone().rank() == 0) {
    phase.emplace(mesh.world().phase("writing the model"));
    writer.emplace(folder + "/model.safetensors", specs, formats::Metadata{});
  }
  for (const auto& [name, item] : items) {
    const Tensor whole = bring_together(mesh, item.owned, here[item.owned.spec.name]);
    if (!writer) continue;
    FOURFOLD_CHECK(writer->next() != nullptr && writer->next()->name == name,
                   "the file has another order than ours");
    const Tensor data = to_file_order(whole, item.file).to(model.precision.compute);
    writer->write(name, {static_cast<const std::byte*>(data.data_ptr()), data.nbytes()});
  }
  if (writer) writer->commit();
}

}  // namespace fourfold::checkpoint
