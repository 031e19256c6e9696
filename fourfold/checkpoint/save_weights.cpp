// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <ATen/ops/index_select.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/gpt2_layout.hpp"
#include "fourfold/checkpoint/transfer_window.hpp"
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

/// The part of the whole tensor that a block is.
Tensor part(const Tensor& whole, const grid::Block& block) {
  Tensor result = whole;
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    const grid::Range& range = block.ranges[d];
    result = result.narrow(static_cast<std::int64_t>(d), range.begin, range.size());
  }
  return result;
}

/// Whether the rank at `coord` sends its shard. Of the ranks that have the same shard, the first
/// sends it.
bool sends(const model::Owned& owned, const grid::Coord& coord) {
  for (const Axis axis : owned.spec.replicas) {
    if (coord[axis] != 0) return false;
  }
  return coord[Axis::kPipe] == owned.place;
}

/// A parameter, and its tensor in the file.
struct Item {
  FileTensor file;
  model::Owned owned;
};
/// The parameters by their names in the file, which give the order there.
using Items = std::map<std::string, Item>;
/// This rank's parameters by our names.
using Here = std::map<std::string, nn::ParameterPtr>;

/// The ranks that send a parameter to rank 0, which may be one of them.
std::vector<int> senders_of(const tensor::Mesh& mesh, const model::Owned& owned) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.grid().ranks(); ++rank) {
    if (sends(owned, mesh.grid().coord_of(rank))) ranks.push_back(rank);
  }
  return ranks;
}

/// All shards of other ranks, in the order in which they are sent.
std::vector<Expected> expected_shards(const tensor::Mesh& mesh, const Items& items) {
  std::vector<Expected> all;
  for (const auto& [name, item] : items) {
    const nn::ParameterSpec& spec = item.owned.spec;
    const grid::Shape shape = spec.layout().shard_shape(spec.shape, mesh.grid());
    for (const int rank : senders_of(mesh, item.owned)) {
      if (rank != 0) all.push_back({rank, shape, item.owned.type});
    }
  }
  return all;
}

void send_shards(const tensor::Mesh& mesh, const Items& items, const Here& here, Bytes window) {
  Outbox outbox(mesh.everyone(), 0, window);
  for (const auto& [name, item] : items) {
    if (!sends(item.owned, mesh.coord())) continue;
    outbox.send(here.at(item.owned.spec.name)->value().detach());
  }
  outbox.finish();
}

/// The whole parameter, gathered on rank 0.
Tensor bring_together(const tensor::Mesh& mesh, const model::Owned& owned, const Here& here,
                      Inbox& inbox) {
  const grid::Shape& shape = owned.spec.shape;
  const grid::Layout layout = owned.spec.layout();
  Tensor whole = at::empty(shape, owned.type);
  for (const int rank : senders_of(mesh, owned)) {
    const grid::Block block = layout.block(shape, mesh.grid(), mesh.grid().coord_of(rank));
    const auto put = [&](const Tensor& shard) {
      part(whole, block).copy_(nn::real_part(shard, block));
    };
    if (rank == 0) {
      put(here.at(owned.spec.name)->value().detach());
    } else {
      inbox.next(put);
    }
  }
  return whole;
}

/// Our tensor in the order of the file.
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

void write_file(const tensor::Mesh& mesh, const Items& items, const Here& here, at::ScalarType type,
                const std::string& folder, Bytes window) {
  const comm::Phase phase = mesh.world().phase("writing the model");
  std::vector<formats::TensorSpec> specs;
  // Vectors may be kept in a wider type, but other programs expect a file of one type.
  for (const auto& [name, item] : items) specs.push_back({name, file_type(type), item.file.shape});
  formats::SafetensorsWriter writer(folder + "/model.safetensors", specs, formats::Metadata{});
  Inbox inbox(mesh.everyone(), expected_shards(mesh, items), window);
  for (const auto& [name, item] : items) {
    const Tensor whole = bring_together(mesh, item.owned, here, inbox);
    FOURFOLD_CHECK(writer.next() != nullptr && writer.next()->name == name,
                   "the file has another order than ours");
    const Tensor data = to_file_order(whole, item.file).to(type);
    writer.write(name, {static_cast<const std::byte*>(data.data_ptr()), data.nbytes()});
  }
  writer.commit();
}

}  // namespace

void save_weights(const tensor::Mesh& mesh, const model::Stages& stages, const std::string& folder,
                  Bytes window) {
  const model::GptSpec& model = stages.spec();
  Items items;
  for (const model::Owned& owned : model::owners(mesh, stages)) {
    FileTensor file = file_tensor(model, owned.spec.name, owned.spec.shape);
    if (!file.name.starts_with("lm_head.")) file.name = name_prefix(model) + file.name;
    items[file.name] = {file, owned};
  }
  Here here;
  for (const nn::ParameterPtr& parameter : stages.parameters()) here[parameter->name()] = parameter;
  // All ranks process the tensors in the order of the file.
  if (mesh.everyone().rank() == 0) {
    write_file(mesh, items, here, model.precision.compute, folder, window);
  } else {
    send_shards(mesh, items, here, window);
  }
}

}  // namespace fourfold::checkpoint
