// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>

#include <ATen/ops/index_select.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/transfer_window.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/formats/safetensors_writer.hpp"
#include "fourfold/tensor/transfer.hpp"

namespace fourfold::checkpoint {

using at::Tensor;
using grid::Axis;
using model::FilePiece;
using model::FileTensor;

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

/// A tensor of the file, and the parameter that it is a piece of.
struct Item {
  std::size_t parameter;  ///< its number in the list of owners
  std::size_t piece;
};
/// The tensors by their names in the file, which give the order there. Several parameters may have
/// parts of one tensor.
using Items = std::map<std::string, std::vector<Item>>;

/// What is saved, the same on all ranks.
struct Content {
  std::vector<model::Owned> owners;
  std::vector<FileTensor> files;  ///< of each owner
  Items items;

  /// The numbers of the parameters in the order in which the file needs them, each once.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> numbers;
    std::vector<bool> seen(owners.size(), false);
    for (const auto& [name, parts] : items) {
      for (const Item& item : parts) {
        if (!seen[item.parameter]) numbers.push_back(item.parameter);
        seen[item.parameter] = true;
      }
    }
    return numbers;
  }

  const FilePiece& piece(const Item& item) const {
    return files[item.parameter].pieces[item.piece];
  }
};

Content content_of(const tensor::Mesh& mesh, const model::Stages& stages) {
  Content content{.owners = model::owners(mesh, stages), .files = {}, .items = {}};
  for (std::size_t i = 0; i < content.owners.size(); ++i) {
    const nn::ParameterSpec& spec = content.owners[i].spec;
    content.files.push_back(stages.model().file_tensor(spec.name, spec.shape));
    const std::vector<FilePiece>& pieces = content.files.back().pieces;
    for (std::size_t k = 0; k < pieces.size(); ++k) content.items[pieces[k].name].push_back({i, k});
  }
  return content;
}

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
std::vector<Expected> expected_shards(const tensor::Mesh& mesh, const Content& content) {
  std::vector<Expected> all;
  for (const std::size_t number : content.order()) {
    const model::Owned& owned = content.owners[number];
    const grid::Shape shape = owned.spec.layout().shard_shape(owned.spec.shape, mesh.grid());
    for (const int rank : senders_of(mesh, owned)) {
      if (rank != 0) all.push_back({rank, shape, owned.type});
    }
  }
  return all;
}

void send_shards(const tensor::Mesh& mesh, const Content& content, const Here& here, Bytes window) {
  Outbox outbox(mesh.everyone(), 0, window);
  for (const std::size_t number : content.order()) {
    const model::Owned& owned = content.owners[number];
    if (sends(owned, mesh.coord())) {
      outbox.send(tensor::download(here.at(owned.spec.name)->value().detach()));
    }
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

/// A piece of the file, from our whole tensor.
Tensor piece_of(const Tensor& ours, const FileTensor& file, std::size_t number) {
  const FilePiece& piece = file.pieces[number];
  std::int64_t first = 0;
  for (std::size_t i = 0; i < number; ++i) first += file.pieces[i].rows();
  Tensor result;
  if (file.order.empty()) {
    result = ours.narrow(0, first, piece.rows());
  } else {
    // Row i of the piece is our row from[i].
    Tensor from = at::empty({piece.rows()}, at::kLong);
    for (std::size_t i = 0; i < file.order.size(); ++i) {
      const std::int64_t place = file.order[i] - first;
      if (place < 0 || place >= piece.rows()) continue;
      from.data_ptr<std::int64_t>()[place] = static_cast<std::int64_t>(i);
    }
    result = ours.index_select(0, from);
  }
  if (piece.transposed) result = result.t();
  if (piece.window_last) {
    std::vector<std::int64_t> shape = piece.shape;
    if (piece.channels) shape[1] = piece.channels->size();
    result = result.transpose(1, 2).reshape(shape);
  }
  return result.contiguous();
}

/// The parameters that have been brought together and of which pieces are still to be written.
class Open {
 public:
  explicit Open(std::function<Tensor(std::size_t parameter)> bring) : bring_(std::move(bring)) {}

  /// A piece of the file, or what a parameter has of it, in the type of the file. Each must be
  /// taken once.
  Tensor take(const FileTensor& file, const Item& item, at::ScalarType type) {
    auto found = open_.find(item.parameter);
    if (found == open_.end()) {
      found = open_.emplace(item.parameter, std::pair{bring_(item.parameter), file.pieces.size()})
                  .first;
    }
    const Tensor data = piece_of(found->second.first, file, item.piece).to(type);
    if (--found->second.second == 0) open_.erase(found);
    return data;
  }

 private:
  std::function<Tensor(std::size_t)> bring_;
  std::map<std::size_t, std::pair<Tensor, std::size_t>> open_;  // with the number of pieces to come
};

/// A tensor of the file, put together from what the parameters have of it.
Tensor tensor_of(const Content& content, const std::vector<Item>& items, at::ScalarType type,
                 Open& open) {
  const auto take = [&](const Item& item) {
    return open.take(content.files[item.parameter], item, type);
  };
  const FilePiece& first = content.piece(items.front());
  if (!first.channels) return take(items.front());
  Tensor whole = at::empty(first.shape, type);
  const std::int64_t dim = first.shape.size() == 1 ? 0 : 1;
  for (const Item& item : items) {
    const grid::Range channels = content.piece(item).channels.value();
    whole.narrow(dim, channels.begin, channels.size()).copy_(take(item));
  }
  return whole;
}

void write_file(const tensor::Mesh& mesh, const Content& content, const Here& here,
                at::ScalarType type, const std::string& path, Bytes window) {
  const comm::LongWork long_work = mesh.world().long_work("writing the model");
  std::vector<formats::TensorSpec> specs;
  // Vectors may be kept in a wider type, but other programs expect a file of one type.
  for (const auto& [name, items] : content.items) {
    specs.push_back({name, file_type(type), content.piece(items.front()).shape});
  }
  formats::SafetensorsWriter writer(path, specs, formats::Metadata{});
  Inbox inbox(mesh.everyone(), expected_shards(mesh, content), window);
  Open open([&](std::size_t parameter) {
    return bring_together(mesh, content.owners[parameter], here, inbox);
  });
  for (const auto& [name, items] : content.items) {
    FOURFOLD_CHECK(writer.next() != nullptr && writer.next()->name == name,
                   "the file has another order than ours");
    const Tensor data = tensor_of(content, items, type, open);
    writer.write(name, {static_cast<const std::byte*>(data.data_ptr()), data.nbytes()});
  }
  writer.commit();
}

}  // namespace

void save_weights(const tensor::Mesh& mesh, const model::Stages& stages, const std::string& folder,
                  Bytes window, std::string_view file) {
  const Content content = content_of(mesh, stages);
  Here here;
  for (const nn::ParameterPtr& parameter : stages.parameters()) here[parameter->name()] = parameter;
  // All ranks process the parameters in the order of the file.
  if (mesh.everyone().rank() == 0) {
    write_file(mesh, content, here, stages.model().execution().precision.compute,
               concat(folder, "/", file), window);
  } else {
    send_shards(mesh, content, here, window);
  }
}

}  // namespace fourfold::checkpoint
