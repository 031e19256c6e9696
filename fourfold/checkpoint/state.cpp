// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/state.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/formats/refuse_file.hpp"
#include "fourfold/grid/rectangles.hpp"

namespace fourfold::checkpoint {

using at::Tensor;

namespace {

/// The number of the first element of a block in a tensor of that shape.
std::int64_t first_element(const grid::Block& block, const grid::Shape& shape) {
  std::int64_t first = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) first = first * shape[d] + block.ranges[d].begin;
  return first;
}

/// The block of the global tensor that a parameter's shard holds.
grid::Block block_of(const nn::Parameter& parameter) {
  const tensor::Mesh& mesh = parameter.mesh();
  return parameter.layout().block(parameter.spec().shape, mesh.grid(), mesh.coord());
}

void add_blocks(const optim::StatePiece& piece, const char* kind, const Tensor& flat,
                std::vector<StateBlock>& result) {
  if (!flat.defined()) return;
  const grid::Shape& shape = piece.parameter->shard_shape();
  const grid::Block real = block_of(*piece.parameter);
  const grid::Block inside = grid::relative(real, real);
  for (const grid::Block& rectangle : grid::rectangles(piece.elements, shape)) {
    const grid::Block kept = grid::intersect(rectangle, inside);
    if (kept.elements() == 0) continue;  // all of it is padding
    Tensor data =
        flat.narrow(0, first_element(rectangle, shape) - piece.elements.begin, rectangle.elements())
            .view(shape_of(rectangle));
    const grid::Block in_rectangle = grid::relative(kept, rectangle);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const grid::Range& range = in_rectangle.ranges[d];
      data = data.narrow(static_cast<std::int64_t>(d), range.begin, range.size());
    }
    result.push_back({concat(kind, "/", piece.parameter->name()), grid::moved(kept, real), data});
  }
}

}  // namespace

std::string StateBlock::entry() const {
  return to_text(EntryName{name, block});
}

std::vector<StateBlock> blocks_of(const std::vector<optim::StatePiece>& pieces) {
  std::vector<StateBlock> blocks;
  for (const optim::StatePiece& piece : pieces) {
    add_blocks(piece, "value", piece.value, blocks);
    add_blocks(piece, "mean", piece.mean, blocks);
    add_blocks(piece, "square", piece.square, blocks);
    add_blocks(piece, "value_mean", piece.value_mean, blocks);
  }
  return blocks;
}

formats::Dtype dtype_of(at::ScalarType type) {
  return type == at::kDouble ? formats::Dtype::kF64 : formats::Dtype::kF32;
}

at::ScalarType scalar_type_of(formats::Dtype dtype, const std::string& path) {
  if (dtype == formats::Dtype::kF64) return at::kDouble;
  if (dtype == formats::Dtype::kF32) return at::kFloat;
  formats::refuse_file(path, concat("it has a tensor of type ", dtype, "; there are F64 and F32"));
}

}  // namespace fourfold::checkpoint
