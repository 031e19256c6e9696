// The time of each layer on one core against libtorch's own operations on the same shapes
// (attention: the plain composition of products, mask and softmax), forward and backward together,
// from no gradients. Prints ratios; the two take turns, and the best of all turns counts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/model/gpt.hpp"
#include "fourfold/nn/attention.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/layer_norm.hpp"
#include "fourfold/nn/loss.hpp"
#include "fourfold/nn/positions.hpp"
#include "fourfold/nn/token_table.hpp"
#include "fourfold/tensor/memory.hpp"

namespace {

using at::Tensor;
using namespace fourfold;

/// One layer both ways: each makes its output from its input, which has a gradient.
struct Contest {
  std::string name;
  std::function<Tensor()> input;
  std::function<Tensor(const Tensor&)> ours;
  std::function<Tensor(const Tensor&)> plain;
  nn::Parameters parameters = {};   ///< of ours
  std::vector<Tensor> leaves = {};  ///< of libtorch's, or of both

  void clear_gradients() const {
    for (const nn::ParameterPtr& parameter : parameters) parameter->forget_gradient();
    for (const Tensor& one : leaves) one.mutable_grad() = Tensor();
  }
};

double run_once(const Contest& contest, const std::function<Tensor(const Tensor&)>& layer,
                const Tensor& gradient) {
  const Tensor input = contest.input();
  contest.clear_gradients();
  const Seconds start = now();
  const Tensor output = layer(input);
  output.backward(gradient);
  return (now() - start).value();
}

void report(const Contest& contest, int turns) {
  const Tensor shape = contest.ours(contest.input()).detach();
  const Tensor gradient = shape.dim() == 0 ? at::ones_like(shape) : at::randn_like(shape);
  double ours = 1e9;
  double plain = 1e9;
  for (int turn = 0; turn < turns; ++turn) {
    ours = std::min(ours, run_once(contest, contest.ours, gradient));
    plain = std::min(plain, run_once(contest, contest.plain, gradient));
  }
  std::printf("%-44s ours %9.3f ms  libtorch %9.3f ms  ratio %.2f\n", contest.name.c_str(),
              ours * 1e3, plain * 1e3, ours / plain);
}

Tensor leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).set_requires_grad(true);
}

Contest linear(const tensor::Mesh& mesh, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const auto layer = std::make_shared<nn::Linear>(
      mesh, nn::LinearSpec{.name = "linear", .in = in, .out = out}, nn::Precision::float32(), 1);
  const Tensor weight = leaf({out, in});
  const Tensor bias = leaf({out});
  const auto vectors = std::make_shared<nn::Vectors>(mesh, layer->vectors());
  const auto in_flight = std::make_shared<tensor::InFlight>(mesh);
  return {concat("linear ", rows, " x ", in, " x ", out),
          [=] {
            return leaf({rows, in});
          },
          [=](const Tensor& x) {
            nn::Pass pass(*in_flight);
            pass.take(*vectors, {bias});
            return layer->forward(x, pass);
          },
          [=](const Tensor& x) { return at::linear(x, weight, bias); },
          {layer->weight()},
          {weight, bias}};
}

Contest norm(const tensor::Mesh& mesh, std::int64_t rows, std::int64_t width) {
  const auto layer = std::make_shared<nn::LayerNorm>(mesh, "norm", width, nn::Activations::kSharded,
                                                     nn::Precision::float32(), 1);
  const Tensor scale = leaf({width});
  const Tensor shift = leaf({width});
  const auto vectors = std::make_shared<nn::Vectors>(mesh, layer->vectors());
  const auto in_flight = std::make_shared<tensor::InFlight>(mesh);
  return {concat("layer norm ", rows, " x ", width),
          [=] {
            return leaf({rows, width});
          },
          [=](const Tensor& x) {
            nn::Pass pass(*in_flight);
            pass.take(*vectors, {scale, shift});
            return layer->forward(x, pass);
          },
          [=](const Tensor& x) { return at::layer_norm(x, {width}, scale, shift, 1e-5); },
          {},
          {scale, shift}};
}

Tensor plain_attention(const Tensor& qkv, std::int64_t samples, std::int64_t context,
                       std::int64_t heads, std::int64_t size, const Tensor& above) {
  const Tensor parts = qkv.view({samples, context, heads, 3, size});
  const auto part = [&](int i) { return parts.select(3, i).transpose(1, 2); };
  const Tensor scores =
      at::matmul(part(0), part(1).transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(size)));
  const Tensor p = scores.masked_fill(above, -INFINITY).softmax(-1);
  return at::matmul(p, part(2)).transpose(1, 2).reshape({samples * context, heads * size});
}

Contest attention(const tensor::Mesh& mesh, std::int64_t samples, std::int64_t context,
                  std::int64_t heads, std::int64_t size) {
  nn::AttentionShape shape;
  shape.samples = samples;
  shape.context = context;
  shape.heads = shape.all_heads = heads;
  shape.head_size = size;
  const tensor::Mesh* m = &mesh;
  const Tensor above = at::ones({context, context}, at::kBool).triu(1);
  return {
      concat("attention ", samples, " samples, context ", context, ", ", heads, " heads"),
      [=] {
        return leaf({samples * context, 3 * heads * size});
      },
      [=](const Tensor& x) { return nn::causal_attention(*m, x, shape); },
      [=](const Tensor& x) { return plain_attention(x, samples, context, heads, size, above); }};
}

Contest gelu(const tensor::Mesh& mesh, std::int64_t rows, std::int64_t width) {
  const tensor::Mesh* m = &mesh;
  return {concat("gelu ", rows, " x ", width),
          [=] {
            return leaf({rows, width});
          },
          [=](const Tensor& x) { return nn::gelu(*m, x); },
          [=](const Tensor& x) { return at::gelu(x, "tanh"); }};
}

Contest dropout(const tensor::Mesh& mesh, std::int64_t rows, std::int64_t width) {
  const tensor::Mesh* m = &mesh;
  return {concat("dropout ", rows, " x ", width),
          [=] {
            return leaf({rows, width});
          },
          [=](const Tensor& x) {
            return nn::dropout(*m, x, 0.1, kernels::key_of(1, "drop"), {{0, rows}, {0, width}});
          },
          [=](const Tensor& x) { return at::dropout(x, 0.1, true); }};
}

Contest residual(const tensor::Mesh& mesh, std::int64_t rows, std::int64_t width) {
  const tensor::Mesh* m = &mesh;
  const Tensor other = at::randn({rows, width});
  return {concat("residual ", rows, " x ", width),
          [=] {
            return leaf({rows, width});
          },
          [=](const Tensor& x) { return nn::residual(*m, x, other); },
          [=](const Tensor& x) { return x + other; }};
}

/// Token and position embedding: the inputs are tokens, and the tables have the gradients.
Contest embedding(const tensor::Mesh& mesh, std::int64_t samples, std::int64_t context,
                  std::int64_t vocabulary, std::int64_t width) {
  const auto table = std::make_shared<nn::TokenTable>(
      mesh, nn::TableSpec{.name = "wte", .vocabulary = vocabulary, .width = width},
      nn::Precision::float32(), 1);
  const auto positions = std::make_shared<nn::Positions>(
      mesh, "wpe", context, width, nn::Activations::kSharded, nn::Precision::float32(), 1);
  const Tensor plain_table = leaf({vocabulary, width});
  const Tensor plain_positions = leaf({context, width});
  const Tensor tokens = at::randint(vocabulary, {samples, context}, at::kLong);
  const nn::Batch batch{.samples = samples, .context = context};
  const auto in_flight = std::make_shared<tensor::InFlight>(mesh);
  return {concat("embedding ", samples * context, " of ", vocabulary, " x ", width),
          [=] { return tokens; },
          [=](const Tensor& x) {
            const nn::Pass pass(*in_flight);
            return positions->add_to(table->lookup(x, pass), batch, pass);
          },
          [=](const Tensor& x) {
            return (at::embedding(plain_table, x) + plain_positions).flatten(0, 1);
          },
          {table->parameter(), positions->parameter()},
          {plain_table, plain_positions}};
}

Contest head(const tensor::Mesh& mesh, std::int64_t rows, std::int64_t vocabulary,
             std::int64_t width) {
  const auto table = std::make_shared<nn::TokenTable>(
      mesh, nn::TableSpec{.name = "head", .vocabulary = vocabulary, .width = width},
      nn::Precision::float32(), 1);
  const Tensor plain_table = (at::randn({vocabulary, width}) * 0.02).set_requires_grad(true);
  const Tensor targets = at::randint(vocabulary, {rows}, at::kLong);
  const tensor::Mesh* m = &mesh;
  const auto in_flight = std::make_shared<tensor::InFlight>(mesh);
  return {
      concat("head and loss ", rows, " x ", width, " x ", vocabulary),
      [=] {
        return leaf({rows, width});
      },
      [=](const Tensor& x) {
        return nn::cross_entropy(*m, *table, table->logits(x, nn::Pass(*in_flight)), targets, rows);
      },
      [=](const Tensor& x) { return at::cross_entropy_loss(at::linear(x, plain_table), targets); },
      {table->parameter()},
      {plain_table}};
}

/// What attention holds at its peak, beside its input and its gradient.
void report_memory(const tensor::Mesh& mesh) {
  for (const std::int64_t context : {512, 1024, 2048, 4096}) {
    const Contest contest = attention(mesh, 1, context, 4, 64);
    const auto peak = [&](const std::function<Tensor(const Tensor&)>& layer) {
      const tensor::MemoryMeter meter;
      const tensor::MemoryMeter::Counting counting(meter);
      const Tensor input = contest.input();
      layer(input).sum().backward();
      return to_string(meter.at_peak().total());
    };
    std::printf("%-44s ours %s  libtorch %s\n",
                concat("attention memory, context ", context).c_str(), peak(contest.ours).c_str(),
                peak(contest.plain).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  // BLAS reads its number of threads when it is loaded.
  if (setenv("OPENBLAS_NUM_THREADS", "1", 0) == 0 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  at::set_num_threads(1);
  const std::string only = argc > 1 ? argv[1] : "";
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  at::manual_seed(1);
  const std::vector<Contest> contests = {
      linear(mesh, 2048, 512, 2048),   linear(mesh, 2048, 2048, 512),
      linear(mesh, 300, 200, 100),     norm(mesh, 2048, 512),
      norm(mesh, 1024, 4096),          norm(mesh, 2048, 64),
      attention(mesh, 8, 256, 8, 64),  attention(mesh, 2, 1024, 8, 64),
      attention(mesh, 1, 2048, 4, 64), attention(mesh, 16, 64, 8, 32),
      gelu(mesh, 2048, 2048),          residual(mesh, 2048, 512),
      dropout(mesh, 2048, 512),        embedding(mesh, 8, 256, 8192, 512),
      head(mesh, 2048, 8192, 512)};
  for (const Contest& contest : contests) {
    if (contest.name.find(only) != std::string::npos) report(contest, 12);
  }
  if (only.empty() || only == "memory") report_memory(mesh);
  world.leave();
}
