// A layer from nothing: it subtracts the mean of each row and multiplies each column by a learned
// scale. docs/writing-a-layer.md explains it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include <ATen/ATen.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/nn/flow.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/nn/pass.hpp"
#include "fourfold/tensor/shard.hpp"
#include "fourfold/tensor/work.hpp"

using namespace fourfold;
using at::Tensor;
using grid::Axes, grid::Axis;
using nn::variable_list;
namespace {
class Center final : public nn::Layer {
 public:
  Center(const tensor::Mesh& mesh, const std::string& name, std::int64_t width)
      : Layer(mesh, name), width_(width) {
    mesh.join(Axis::kX);  // the ranks that it communicates with
    const Axes rest = {Axis::kY, Axis::kZ};
    scale_ = declare({.name = name + ".weight",
                      .shape = {width},
                      .kept = Axis::kX,  // a use sees the columns of this rank's x,
                      .gathered = rest,  // which the ranks along y and z keep in parts.
                      .summed = rest,    // These have different rows: their gradients add up.
                      .mean = 1},
                     nn::Precision::float64(), /*seed=*/1);
  }

  nn::Flow<Tensor> flow(Tensor input, const nn::Pass& pass) const {
    const Tensor scale = pass.vector(scale_);
    const auto call = std::make_shared<Call>();
    call->rows = input.detach();
    // The first node sends the sums of this rank's columns. Backward, it is the last: it waits for
    // the sums of the gradient.
    const variable_list passed = nn::node(
        name(), {input},
        [&](const variable_list&) -> variable_list {
          call->sums = start_sum(call->rows);
          return {nn::placeholder(input.options())};
        },
        [this, call](const variable_list&) -> variable_list {
          return {call->gradient - call->gradient_sums.wait() / double(width_)};
        });
    co_await nn::Turn{call->sums.under_way()};  // the other half of the batch computes meanwhile

    co_return nn::node(
        name(), {passed[0], scale},
        [&](const variable_list& in) -> variable_list {
          call->scale = in[1].detach();
          call->rows = call->rows - call->sums.wait() / double(width_);
          report("center", call->rows);
          return {call->rows * in[1]};
        },
        [this, call](const variable_list& upstream) -> variable_list {
          call->gradient = upstream[0] * call->scale;
          call->gradient_sums = start_sum(call->gradient);
          report("center dI", call->gradient);
          return {nn::placeholder(call->gradient.options()), (upstream[0] * call->rows).sum(0)};
        })[0];
  }

 private:
  /// What the two nodes of a call share.
  struct Call {
    Tensor rows, scale, gradient;
    tensor::Pending sums, gradient_sums;
  };

  /// The sum of each row, over this rank's columns and then over the ranks along x.
  tensor::Pending start_sum(const Tensor& rows) const {
    const comm::LayerScope scope(name());  // schedules and timelines name the layer
    return tensor::all_reduce(mesh_->comm(Axis::kX), rows.sum(1, /*keepdim=*/true));
  }
  void report(const char* what, const Tensor& rows) const {
    const comm::LayerScope scope(name());
    mesh_->compute(what, tensor::loop_over(rows, 2, 3));
  }

  std::int64_t width_;
  nn::ParameterPtr scale_;
};

constexpr std::int64_t kRows = 12, kWidth = 8;
const grid::Layout kLayout({Axes{Axis::kData, Axis::kZ, Axis::kY}, Axes(Axis::kX)});

Tensor numbers(const char* name) {
  Tensor whole = at::empty({kRows, kWidth}, at::kDouble);
  const grid::Block all{{{0, kRows}, {0, kWidth}}};
  kernels::fill_normal(whole, {kRows, kWidth}, all, kernels::key_of(1, name), 1);
  return whole;
}

/// How far this rank's output and gradients are from those of libtorch's own operations.
double error_on(comm::World& world, const grid::Grid& grid) {
  const tensor::Mesh mesh(world, grid);
  const Center layer(mesh, "center", kWidth);
  const nn::Vectors vectors(mesh, layer.vectors());
  const auto here = [&](const Tensor& whole) { return tensor::shard(mesh, whole, kLayout); };
  const Tensor whole = numbers("input").set_requires_grad(true);
  const Tensor scale = at::ones({kWidth}, at::kDouble).set_requires_grad(true);
  const Tensor expected = (whole - whole.mean(1, true)) * scale;
  expected.backward(numbers("upstream"));
  const Tensor input = here(whole.detach()).set_requires_grad(true);
  tensor::InFlight in_flight(mesh);  // communication that outlives a layer
  const Tensor output = nn::run(layer.flow(input, nn::Pass(in_flight, vectors)));
  output.backward(here(numbers("upstream")));
  in_flight.sums().drain();
  const nn::ParameterPtr p = layer.vectors()[0];
  const Tensor found = tensor::unshard(mesh, p->gradient(), {kWidth}, p->layout());
  const auto largest = [](const Tensor& error) { return error.abs().max().item<double>(); };
  return std::max({largest(output - here(expected.detach())), largest(found - scale.grad()),
                   largest(input.grad() - here(whole.grad()))});
}
}  // namespace
int main() {
  try {
    const grid::Grid grid({.x = 2, .y = 3, .z = 2});
    comm::thread::run(grid.ranks(), [&](comm::World& world) {
      const double error = error_on(world, grid);
      if (!(error < 1e-12)) throw Error(concat("rank ", world.rank(), " is wrong by ", error));
    });
    std::printf("On %d ranks the layer is that of one process.\n", grid.ranks());
    // A dry run: the same code on a rank of a grid that does not exist.
    comm::World nowhere = comm::recording::open(0, 4096);
    const tensor::Mesh mesh(nowhere, grid::Grid({.x = 16, .y = 16, .z = 16}));
    const Center layer(mesh, "center", 4096);
    const nn::Vectors vectors(mesh, layer.vectors());
    const Tensor input = at::empty({64, 256}, at::TensorOptions(at::kDouble).device(mesh.device()));
    tensor::InFlight in_flight(mesh);
    static_cast<void>(nn::run(layer.flow(input, nn::Pass(in_flight, vectors))));
    for (const auto& [key, count] : nowhere.counters())
      std::printf("A rank of 4096 sends %s along %s.\n", to_string(count.wire.bytes).c_str(),
                  key.axes.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
}
