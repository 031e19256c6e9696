// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <set>
#include <string_view>
#include <tuple>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/gpt2_layout.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/formats/safetensors_folder.hpp"

namespace fourfold::checkpoint {

using at::Tensor;

namespace {

/// A tensor of the folder, and its name there.
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

/// Whether the shape fits. A file may have more positions than the model uses.
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

/// The rows and columns of a table.
std::pair<std::int64_t, std::int64_t> table_shape(const formats::SafetensorsFolder& files,
                                                  const std::string& name,
                                                  const std::string& folder) {
  std::string found = name;
  if (!files.contains(found)) found = "transformer." + name;
  if (!files.contains(found)) {
    throw ConfigError(concat("the weights in ", folder, " lack ", name));
  }
  const std::vector<std::int64_t>& shape = files.entry(found).shape;
  if (shape.size() != 2) {
    throw ConfigError(
        concat(found, " in ", folder, " has the shape ", shown(shape), ", which is no table"));
  }
  return {shape[0], shape[1]};
}

/// The number of blocks that have tensors, such as "h.11.ln_1.bias".
std::int64_t blocks_in(const formats::SafetensorsFolder& files) {
  constexpr std::string_view kPrefix = "transformer.";
  std::set<std::int64_t> blocks;
  for (const auto& [name, file] : files.tensors()) {
    std::string_view rest = name;
    if (rest.starts_with(kPrefix)) rest.remove_prefix(kPrefix.size());
    if (!rest.starts_with("h.")) continue;
    rest.remove_prefix(2);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') {
      blocks.insert(number);
    }
  }
  return static_cast<std::int64_t>(blocks.size());
}

/// Selects the rows, or columns, of the file that correspond to a block's rows.
Tensor select(const Tensor& file, std::int64_t dim, const grid::Range& rows,
              const std::vector<std::int64_t>& order) {
  if (order.empty()) return file.narrow(dim, rows.begin, rows.size());
  const Tensor index = at::empty({rows.size()}, at::kLong);
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    index.data_ptr<std::int64_t>()[i] = order[static_cast<std::size_t>(rows.begin + i)];
  }
  return file.index_select(dim, index);
}

/// The block of a parameter, from a tensor of the file. It works on bytes, since numbers in files
/// need not be aligned.
Tensor read_block(std::span<const std::byte> data, const std::vector<std::int64_t>& shape,
                  at::ScalarType type, const FileTensor& wanted, const grid::Block& block) {
  std::vector<std::int64_t> sizes = shape;
  sizes.push_back(static_cast<std::int64_t>(c10::elementSize(type)));
  // from_blob takes a pointer to mutable data, but nothing is changed.
  Tensor bytes = at::from_blob(const_cast<std::byte*>(data.data()), sizes, at::kByte);
  bytes = select(bytes, wanted.transposed ? 1 : 0, block.ranges[0], wanted.order);
  if (block.ranges.size() == 2) {
    const grid::Range& columns = block.ranges[1];
    bytes = bytes.narrow(wanted.transposed ? 0 : 1, columns.begin, columns.size());
  }
  if (wanted.transposed) bytes = bytes.transpose(0, 1);
  // This makes a copy, whose memory is aligned and owned by the result.
  return bytes.clone(at::MemoryFormat::Contiguous).view(type).squeeze(-1);
}

}  // namespace

FileSizes sizes_of_weights(const std::string& folder) {
  const formats::SafetensorsFolder files(folder);
  FileSizes sizes;
  std::tie(sizes.vocabulary, sizes.width) = table_shape(files, "wte.weight", folder);
  sizes.context = table_shape(files, "wpe.weight", folder).first;
  sizes.layers = blocks_in(files);
  return sizes;
}

void check_weights(const model::GptSpec& spec, const std::string& folder) {
  const std::string first_block = "h.0.";
  const formats::SafetensorsFolder files(folder);
  // All blocks are alike, so that one of them shows what the others need. So a model with the
  // claimed number of blocks is not built before their tensors have been found.
  model::GptSpec short_spec = spec;
  short_spec.layers = 1;
  comm::World world = comm::recording::open(0, 1);
  const tensor::Mesh mesh(world, grid::Grid());
  const model::Gpt gpt(mesh, short_spec, 1);
  std::vector<FileTensor> of_block;
  for (const nn::ParameterPtr& parameter : gpt.parameters()) {
    const FileTensor wanted = file_tensor(spec, parameter->name(), parameter->spec().shape);
    find(files, wanted, folder);
    if (!wanted.name.starts_with(first_block)) continue;
    of_block.push_back(wanted);
    of_block.back().order.clear();  // it is long, and nothing is read
  }
  for (std::int64_t block = 1; block < spec.layers; ++block) {
    for (FileTensor wanted : of_block) {
      wanted.name.replace(0, first_block.size(), concat("h.", block, "."));
      find(files, wanted, folder);
    }
  }
}

void load_weights(const model::Gpt& gpt, const std::string& folder) {
  const formats::SafetensorsFolder files(folder);
  nn::Parameters all = gpt.parameters();
  if (gpt.table() && !gpt.stage().first) all.push_back(gpt.table());  // a copy of the first stage's
  for (const nn::ParameterPtr& parameter : all) {
    const grid::Shape& shape = parameter->spec().shape;
    const FileTensor wanted = file_tensor(gpt.spec(), parameter->name(), shape);
    const Found found = find(files, wanted, folder);
    parameter->fill([&](Tensor& rows, const grid::Block& here) {
      if (here.elements() == 0) return;
      nn::real_part(rows, here)
          .copy_(read_block(files.data(found.name), files.entry(found.name).shape, found.type,
                            wanted, here));
    });
  }
}

}  // namespace fourfold::checkpoint
