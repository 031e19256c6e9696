// 4-D layers in a model of one's own. The model has two linear layers with a GELU between them, and
// a loss that the example defines itself. It runs on x=2, y=2, data=2 and on one rank alone; the
// same code gives the same gradients on both.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
#include <string>

#include <ATen/ops/gelu.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/vectors.hpp"
#include "fourfold/tensor/shard.hpp"

using namespace fourfold;
using at::Tensor;
using grid::Axes;
using grid::Axis;

namespace {

constexpr std::int64_t kRows = 16, kWidth = 8;

class Model {
 public:
  /// Weights are functions of seed, name and place: the same on every grid.
  explicit Model(const tensor::Mesh& mesh)
      : up_(mesh, {.name = "up", .in = kWidth, .out = 4 * kWidth, .deviation = 0.3},
            nn::Precision::float64(), 1),
        // The second contracts over the axis that the first one produces over: nothing is moved.
        down_(
            mesh,
            {.name = "down", .in = 4 * kWidth, .out = kWidth, .transposed = true, .deviation = 0.3},
            nn::Precision::float64(), 1),
        biases_(mesh, {up_.bias(), down_.bias()}) {}

  Tensor forward(tensor::InFlight& in_flight, const Tensor& input) const {
    const nn::Pass pass(in_flight, biases_);  // gathers both in one operation for each group
    const Tensor hidden = at::gelu(up_.forward(input, pass));  // any operation of libtorch
    return down_.forward(hidden, pass);
  }

  nn::Parameters parameters() const {
    return {up_.weight(), up_.bias(), down_.weight(), down_.bias()};
  }

 private:
  nn::Linear up_;
  nn::Linear down_;
  nn::Vectors biases_;
};

/// This rank's part of the input: rows over data, z and y, columns over x. Sizes that do not divide
/// are refused: rows of zeros would count in the loss.
Tensor input_of(const tensor::Mesh& mesh) {
  Tensor whole = at::empty({kRows, kWidth}, at::kDouble);
  const grid::Block all{{{0, kRows}, {0, kWidth}}};
  kernels::fill_normal(whole, {kRows, kWidth}, all, kernels::key_of(1, "input"), 1);
  const grid::Layout layout({Axes{Axis::kData, Axis::kZ, Axis::kY}, Axes(Axis::kX)});
  return tensor::shard(mesh, whole, layout);
}

/// Forward and backward; the gradients of this rank's parts of all parameters, by name.
std::map<std::string, Tensor> gradients(const tensor::Mesh& mesh, const Model& model) {
  tensor::InFlight in_flight(mesh);
  // Each rank starts from its own part of the loss: the sum over ranks is the loss.
  model.forward(in_flight, input_of(mesh)).square().sum().backward();
  in_flight.sums().drain();  // sums of gradients over ranks may go on after the backward pass
  std::map<std::string, Tensor> result;
  for (const nn::ParameterPtr& parameter : model.parameters()) {
    Tensor gradient = parameter->gradient();
    // Ranks along data have the same parameters and other rows. optim::AdamW sums over them.
    const auto& data = mesh.join(Axis::kData, tensor::Purpose::kGradients);
    if (data.size() > 1) data.all_reduce(tensor::view(gradient)).wait();
    result[parameter->name()] = gradient;
  }
  return result;
}

/// Throws unless the ranks' gradients together are the serial ones.
void compare(const tensor::Mesh& mesh, const Model& model,
             const std::map<std::string, Tensor>& serial) {
  const auto found = gradients(mesh, model);
  for (const nn::ParameterPtr& parameter : model.parameters()) {
    const Tensor& expected = serial.at(parameter->name());
    const Tensor whole = tensor::unshard(mesh, found.at(parameter->name()), parameter->spec().shape,
                                         parameter->layout());
    const double error =
        whole.sub(expected).abs().max().item<double>() / expected.abs().max().item<double>();
    if (!(error <= 1e-10)) throw Error(concat(parameter->name(), " is wrong by ", error));
  }
}

}  // namespace

int main() {
  try {
    comm::World alone = comm::self::open();
    const tensor::Mesh mesh_alone(alone, grid::Grid());
    const auto serial = gradients(mesh_alone, Model(mesh_alone));

    const grid::Grid grid({.x = 2, .y = 2, .data = 2});
    comm::thread::run(grid.ranks(), [&](comm::World& world) {
      const tensor::Mesh mesh(world, grid);
      compare(mesh, Model(mesh), serial);
    });
    for (const auto& [name, gradient] : serial) {
      std::printf("%-12s norm of the gradient %.6f, the same on %d ranks\n", name.c_str(),
                  gradient.norm().item<double>(), grid.ranks());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
  return 0;
}
