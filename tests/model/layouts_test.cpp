// The table "Where the hidden state lies" of docs/gradients.md, point by point: what a rank has
// there is its block of what one process has.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/model/gpt.hpp"
#include "fourfold/model/gpt_block.hpp"
#include "fourfold/nn/elementwise.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using nn::Activations;
using nn::HeadSplit;
using nn::ProductKind;
using nn::Spread;

constexpr std::int64_t kWidth = 16, kHeads = 4, kContext = 4, kSamples = 16;

/// A row of the table for each point of a block.
struct Table {
  const char* name;
  ProductKind product;
  Activations activations;
  HeadSplit split;
  Spread between;    ///< blocks, and in the network
  Spread attention;  ///< the output of QKV and the input of the projection
  grid::Layout hidden;
  grid::Layout heads;
  grid::Layout wide;  ///< between the two layers of the network
};

std::vector<Table> tables() {
  const Axes samples = {Axis::kData, Axis::kZ};
  const Axes with_x = {Axis::kData, Axis::kZ, Axis::kX};
  const Axes with_y = {Axis::kData, Axis::kZ, Axis::kY};
  const Axes both = {Axis::kY, Axis::kX};
  const auto sharded = split_over(with_y, Axis::kX);
  const auto replicated = split_over(samples, Axis::kX);
  return {
      {"sharded, heads", ProductKind::k4d, Activations::kSharded, HeadSplit::kHeads, Spread::kRows,
       Spread::kColumns, sharded, split_over(samples, both), split_over(with_x, Axis::kY)},
      {"sharded, samples", ProductKind::k4d, Activations::kSharded, HeadSplit::kSamples,
       Spread::kRows, Spread::kRows, sharded, split_over(with_x, Axis::kY),
       split_over(with_x, Axis::kY)},
      {"replicated, heads", ProductKind::k4d, Activations::kReplicated, HeadSplit::kHeads,
       Spread::kCopies, Spread::kColumns, replicated, split_over(samples, both),
       split_over(samples, Axis::kY)},
      {"replicated, samples", ProductKind::k4d, Activations::kReplicated, HeadSplit::kSamples,
       Spread::kCopies, Spread::kRows, replicated, split_over(with_x, Axis::kY),
       split_over(samples, Axis::kY)},
      {"SUMMA", ProductKind::kSumma, Activations::kSharded, HeadSplit::kSquare, Spread::kRows,
       Spread::kRows, sharded, sharded, sharded},
  };
}

model::GptSpec spec_of(const Table& table) {
  model::GptSpec spec;
  spec.width = kWidth;
  spec.heads = kHeads;
  spec.layers = 1;
  spec.context = kContext;
  spec.execution.product = table.product;
  spec.execution.activations = table.activations;
  spec.execution.precision = nn::Precision::float64();
  return spec;
}

/// The heads and samples that a rank has of qkv, by its layout alone.
nn::AttentionShape shape_of(const tensor::Mesh& mesh, const grid::Layout& heads) {
  const grid::Shape local = heads.shard_shape({kSamples * kContext, 3 * kWidth}, mesh.grid());
  nn::AttentionShape shape;
  shape.samples = local[0] / kContext;
  shape.context = kContext;
  shape.head_size = kWidth / kHeads;
  shape.heads = local[1] / (3 * shape.head_size);
  shape.all_heads = kHeads;
  return shape;
}

/// A block taken apart: its layers, with the spreads of the table, and what is between them.
std::map<std::string, Tensor> points(const tensor::Mesh& mesh, const Table& table,
                                     const Tensor& input) {
  const nn::Precision precision = nn::Precision::float64();
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool transposed,
                          Spread from, Spread to, double deviation) {
    return nn::make_linear(table.product, mesh,
                           {.name = name,
                            .in = in,
                            .out = out,
                            .transposed = transposed,
                            .input = from,
                            .output = to,
                            .deviation = deviation},
                           precision, 1);
  };
  const double small = 0.02 / std::sqrt(2.0);
  const nn::LayerNorm norm1(mesh, "h.0.ln_1", kWidth, table.activations, precision, 1);
  const nn::LayerNorm norm2(mesh, "h.0.ln_2", kWidth, table.activations, precision, 1);
  const auto qkv =
      linear("h.0.attn.c_attn", kWidth, 3 * kWidth, false, table.between, table.attention, 0.02);
  const auto projection =
      linear("h.0.attn.c_proj", kWidth, kWidth, true, table.attention, table.between, small);
  const auto up =
      linear("h.0.mlp.c_fc", kWidth, 4 * kWidth, false, table.between, table.between, 0.02);
  const auto down =
      linear("h.0.mlp.c_proj", 4 * kWidth, kWidth, true, table.between, table.between, small);
  const nn::Vectors vectors(mesh, {norm1.scale(), norm1.shift(), qkv->bias(), projection->bias(),
                                   norm2.scale(), norm2.shift(), up->bias(), down->bias()});
  tensor::InFlight in_flight(mesh);
  const nn::Pass pass(in_flight, vectors);

  std::map<std::string, Tensor> at;
  at["input"] = input;
  at["first norm"] = norm1.forward(input, pass);
  at["qkv"] = qkv->forward(at["first norm"], pass);
  at["attention"] = nn::causal_attention(mesh, at["qkv"], shape_of(mesh, table.heads));
  at["projection"] = projection->forward(at["attention"], pass);
  at["sum"] = nn::residual(mesh, input, at["projection"]);
  at["second norm"] = norm2.forward(at["sum"], pass);
  at["up"] = up->forward(at["second norm"], pass);
  at["gelu"] = nn::gelu(mesh, at["up"]);
  at["down"] = down->forward(at["gelu"], pass);
  at["output"] = nn::residual(mesh, at["sum"], at["down"]);
  return at;
}

Tensor block_output(const tensor::Mesh& mesh, const Table& table, const Tensor& input) {
  const model::GptBlock block(mesh, spec_of(table), 0, table.split);
  tensor::InFlight in_flight(mesh);
  const nn::Pass pass(in_flight, block.bundle());
  return nn::run(block.flow(input, {.samples = kSamples, .context = kContext}, pass));
}

const grid::Layout& layout_at(const Table& table, const std::string& point) {
  if (point == "qkv" || point == "attention") return table.heads;
  if (point == "up" || point == "gelu") return table.wide;
  return table.hidden;
}

void check(const Table& table, const grid::Sizes& sizes) {
  const Tensor input = normal({kSamples * kContext, kWidth}, "input");
  comm::World alone = comm::self::open();
  const tensor::Mesh mesh_alone(alone, grid::Grid());
  const auto whole = points(mesh_alone, table, input);
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    const Tensor own = part_of(mesh, input, table.hidden);
    Worst worst;
    for (const auto& [name, found] : points(mesh, table, own)) {
      const Tensor expected = part_of(mesh, whole.at(name), layout_at(table, name));
      if (found.sizes() != expected.sizes()) {
        worst.see(INFINITY, name + ": another shape");
        continue;
      }
      worst.see(relative_error(found, expected, whole.at(name)), name);
    }
    // The layers above, in this order and with these spreads, are the block of the model.
    worst.see(relative_error(block_output(mesh, table, own),
                             part_of(mesh, whole.at("output"), table.hidden), whole.at("output")),
              "the block");
    expect_on_all_ranks(
        world, worst.error <= 1e-10,
        concat(table.name, " on ", grid, ": error ", worst.error, " of ", worst.where));
  });
}

TEST(Layouts, OfABlockAreThoseOfTheTable) {
  for (const Table& table : tables()) {
    check(table, {.x = 2, .y = 2, .z = 2, .data = 2});
    if (table.product == ProductKind::k4d) check(table, {.x = 2, .y = 1, .z = 2, .data = 1});
    if (table.product == ProductKind::k4d) check(table, {.x = 1, .y = 4, .z = 1, .data = 2});
  }
}

}  // namespace
}  // namespace fourfold::test
