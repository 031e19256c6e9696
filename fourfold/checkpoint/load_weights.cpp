// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/claims.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/formats/safetensors_folder.hpp"

namespace fourfold::checkpoint {

using at::Tensor;
using model::FilePiece;
using model::FileTensor;

namespace {

/// A tensor of the folder.
struct Found {
  const formats::TensorEntry* entry;
  std::string name;  ///< in the folder
  at::ScalarType type;
};

std::string shown(const std::vector<std::int64_t>& shape) {
  return concat("[", join(shape, ", "), "]");
}

at::ScalarType scalar_type(formats::Dtype dtype, const std::string& tensor) {
  switch (dtype) {
    case formats::Dtype::kF64:
      return at::kDouble;
    case formats::Dtype::kF32:
      return at::kFloat;
    case formats::Dtype::kF16:
      return at::kHalf;
    case formats::Dtype::kBF16:
      return at::kBFloat16;
    default:
      throw ConfigError(
          concat(tensor, " is of type ", dtype, "; weights must be F64, F32, F16 or BF16"));
  }
}

/// Whether the shape fits.
bool fits(const FilePiece& wanted, const std::vector<std::int64_t>& shape) {
  if (!wanted.more_rows) return shape == wanted.shape;
  return shape.size() == 2 && shape[0] >= wanted.shape[0] && shape[1] == wanted.shape[1];
}

/// The first of these names that the folder has; empty if it has none.
Found find(const formats::SafetensorsFolder& files, const FilePiece& wanted,
           const std::string& folder) {
  std::vector<std::string> names = {wanted.name};
  names.insert(names.end(), wanted.other_names.begin(), wanted.other_names.end());
  const std::string name = name_in(files, names);
  if (name.empty()) throw ConfigError(concat("the weights in ", folder, " lack ", wanted.name));
  const formats::TensorEntry& entry = files.entry(name);
  const std::string label = concat(name, " in ", folder);
  if (!fits(wanted, entry.shape)) {
    throw ConfigError(concat(label, " has the shape ", shown(entry.shape), ", and the model needs ",
                             shown(wanted.shape), ": set the sizes of [model] to the file's"));
  }
  return {&entry, name, scalar_type(entry.dtype, label)};
}

/// The places of some of our rows: in a piece of the file, and in the block that is read.
struct Rows {
  std::vector<std::int64_t> in_piece;
  std::vector<std::int64_t> in_block;
};

/// Where the rows of a block are in each piece.
std::vector<Rows> rows_of(const FileTensor& wanted, const grid::Range& block) {
  std::vector<Rows> all(wanted.pieces.size());
  for (std::int64_t row = block.begin; row < block.end; ++row) {
    std::int64_t place = wanted.order.empty() ? row : wanted.order[static_cast<std::size_t>(row)];
    std::size_t piece = 0;
    while (place >= wanted.pieces[piece].rows()) place -= wanted.pieces[piece++].rows();
    all[piece].in_piece.push_back(place + wanted.pieces[piece].first_row());
    all[piece].in_block.push_back(row - block.begin);
  }
  return all;
}

Tensor index_of(const std::vector<std::int64_t>& rows) {
  const Tensor index = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
  std::copy(rows.begin(), rows.end(), index.data_ptr<std::int64_t>());
  return index;
}

/// Whether the numbers follow each other.
bool consecutive(const std::vector<std::int64_t>& rows) {
  return rows.empty() || (std::is_sorted(rows.begin(), rows.end()) &&
                          rows.back() - rows.front() + 1 == static_cast<std::int64_t>(rows.size()));
}

Tensor select(const Tensor& file, std::int64_t dim, const std::vector<std::int64_t>& rows) {
  if (consecutive(rows)) {
    return file.narrow(dim, rows.front(), static_cast<std::int64_t>(rows.size()));
  }
  return file.index_select(dim, index_of(rows));
}

/// Some rows of a parameter, from a tensor of the file. It works on bytes, since numbers in files
/// need not be aligned.
Tensor read_rows(std::span<const std::byte> data, const Found& found, const FilePiece& piece,
                 const std::vector<std::int64_t>& rows, const grid::Block& block) {
  std::vector<std::int64_t> sizes = found.entry->shape;
  sizes.push_back(static_cast<std::int64_t>(c10::elementSize(found.type)));
  // from_blob takes a pointer to mutable data, but nothing is changed.
  Tensor bytes = at::from_blob(const_cast<std::byte*>(data.data()), sizes, at::kByte);
  bytes = select(bytes, piece.transposed ? 1 : 0, rows);
  if (piece.window_last) {
    const grid::Range& columns = block.ranges[2];
    const std::int64_t first = piece.channels ? piece.channels->begin : 0;
    bytes = bytes.narrow(1, first + columns.begin, columns.size());
    bytes = bytes.flatten(2, -2).transpose(1, 2);
    bytes = bytes.narrow(1, block.ranges[1].begin, block.ranges[1].size());
  } else if (block.ranges.size() == 2) {
    const grid::Range& columns = block.ranges[1];
    bytes = bytes.narrow(piece.transposed ? 0 : 1, columns.begin, columns.size());
  }
  if (piece.transposed) bytes = bytes.transpose(0, 1);
  // This makes a copy, whose memory is aligned and owned by the result.
  return bytes.clone(at::MemoryFormat::Contiguous).view(found.type).squeeze(-1);
}

}  // namespace

void check_weights(const model::Model& model, const std::string& folder) {
  const formats::SafetensorsFolder files(folder);
  // Where all blocks are alike, one of them shows what the others need. So a model with the claimed
  // number of blocks is not built before their tensors have been found.
  const model::ModelPtr short_model = model.alike() ? model.with_blocks(1) : nullptr;
  const model::Model& built = short_model ? *short_model : model;
  const std::string first_block = short_model ? model.block_prefix(0) : "";
  comm::World world = comm::recording::open(0, 1);
  const tensor::Mesh mesh(world, grid::Grid());
  const std::unique_ptr<model::Part> part = built.make(mesh, 1, built.whole());
  std::vector<std::pair<std::string, grid::Shape>> of_block;
  const auto look = [&](const std::string& name, const grid::Shape& shape) {
    for (const FilePiece& piece : model.file_tensor(name, shape).pieces) find(files, piece, folder);
  };
  for (const nn::ParameterPtr& parameter : part->parameters()) {
    look(parameter->name(), parameter->spec().shape);
    if (short_model && parameter->name().starts_with(first_block)) {
      of_block.emplace_back(parameter->name(), parameter->spec().shape);
    }
  }
  for (std::int64_t block = 1; short_model && block < model.blocks(); ++block) {
    for (const auto& [name, shape] : of_block) {
      look(model.block_prefix(block) + name.substr(first_block.size()), shape);
    }
  }
}

void load_weights(const model::Model& model, const model::Part& part, const std::string& folder,
                  std::string_view file) {
  const formats::SafetensorsFolder files(folder, file);
  nn::Parameters all = part.parameters();
  if (part.shared() && !part.stage().first) all.push_back(part.shared());  // a copy
  for (const nn::ParameterPtr& parameter : all) {
    const FileTensor wanted = model.file_tensor(parameter->name(), parameter->spec().shape);
    std::vector<Found> found;
    for (const FilePiece& piece : wanted.pieces) found.push_back(find(files, piece, folder));
    parameter->fill([&](Tensor& rows, const grid::Block& here) {
      if (here.elements() == 0) return;
      Tensor target = nn::real_part(rows, here);
      const std::vector<Rows> places = rows_of(wanted, here.ranges[0]);
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (places[i].in_block.empty()) continue;
        const Tensor read = read_rows(files.data(found[i].name), found[i], wanted.pieces[i],
                                      places[i].in_piece, here);
        if (consecutive(places[i].in_block)) {
          target.narrow(0, places[i].in_block.front(), read.size(0)).copy_(read);
        } else {
          target.index_copy_(0, index_of(places[i].in_block), read.to(target.scalar_type()));
        }
      }
    });
  }
}

}  // namespace fourfold::checkpoint
