// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/gpt2_layout.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/formats/safetensors_folder.hpp"

namespace fourfold::checkpoint {

using at::Tensor;

namespace {

/// A tensor of the folder, and what it is called there.
struct Found {
  std::string name;
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

/// Files with more positions than the model uses are welcome.
bool fits(const FileTensor& wanted, const std::vector<std::int64_t>& shape) {
  if (wanted.name != "wpe.weight") return shape == wanted.shape;
  return shape.size() == 2 && shape[0] >= wanted.shape[0] && shape[1] == wanted.shape[1];
}

Found find(const formats::SafetensorsFolder& files, const FileTensor& wanted,
           const std::string& folder) {
  Found found{wanted.name, at::kFloat};
  if (!files.contains(found.name)) found.name = "transformer." + wanted.name;
  if (!files.contains(found.name)) {
    throw ConfigError(concat("the weights in ", folder, " lack ", wanted.name));
  }
  const formats::TensorEntry& entry = files.entry(found.name);
  const std::string label = concat(found.name, " in ", folder);
  if (!fits(wanted, entry.shape)) {
    throw ConfigError(concat(label, " has the shape ", shown(entry.shape), ", and the model needs ",
                             shown(wanted.shape), ": set the sizes of [model] to the file's"));
  }
  found.type = scalar_type(entry.dtype, label);
  return found;
}

/// The rows, or columns, of the file that a block's rows are.
Tensor select(const Tensor& file, std::int64_t dim, const grid::Range& rows,
              const std::vector<std::int64_t>& order) {
  if (order.empty()) return file.narrow(dim, rows.begin, rows.size());
  const Tensor index = at::empty({rows.size()}, at::kLong);
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    index.data_ptr<std::int64_t>()[i] = order[static_cast<std::size_t>(rows.begin + i)];
  }
  return file.index_select(dim, index);
}

/// The block of a parameter, from a tensor of the file. Works on bytes: numbers in files need not
/// be aligned.
Tensor read_block(std::span<const std::byte> data, const std::vector<std::int64_t>& shape,
                  at::ScalarType type, const FileTensor& wanted, const grid::Block& block) {
  std::vector<std::int64_t> sizes = shape;
  sizes.push_back(static_cast<std::int64_t>(c10::elementSize(type)));
  // from_blob takes what it could change; nothing does.
  Tensor bytes = at::from_blob(const_cast<std::byte*>(data.data()), sizes, at::kByte);
  bytes = select(bytes, wanted.transposed ? 1 : 0, block.ranges[0], wanted.order);
  if (block.ranges.size() == 2) {
    const grid::Range& columns = block.ranges[1];
    bytes = bytes.narrow(wanted.transposed ? 0 : 1, columns.begin, columns.size());
  }
  if (wanted.transposed) bytes = bytes.transpose(0, 1);
  // A copy, so that its memory is aligned and its own.
  return bytes.clone(at::MemoryFormat::Contiguous).view(type).squeeze(-1);
}

}  // namespace

void load_weights(const tensor::Mesh& mesh, const model::Gpt& gpt, const std::string& folder) {
  const comm::Phase phase = mesh.world().phase("loading the weights");
  const formats::SafetensorsFolder files(folder);
  nn::Parameters all = gpt.parameters();
  if (gpt.table() && !gpt.stage().first) all.push_back(gpt.table());  // a copy of the first stage's
  for (const nn::ParameterPtr& parameter : all) {
    const grid::Shape& shape = parameter->spec().shape;
    const FileTensor wanted = file_tensor(gpt.spec(), parameter->name(), shape);
    const Found found = find(files, wanted, folder);
    const grid::Block block = parameter->layout().block(shape, mesh.grid(), mesh.coord());
    Tensor shard = at::zeros_like(parameter->master().detach());
    if (block.elements() > 0) {
      nn::real_part(shard, block)
          .copy_(read_block(files.data(found.name), files.entry(found.name).shape, found.type,
                            wanted, block));
    }
    parameter->assign(shard);
  }
}

}  // namespace fourfold::checkpoint
