// SPDX-License-Identifier: Apache-2.0
#include "tests/optim/own_groups.hpp"

#include "fourfold/comm/self/self.hpp"
#include "fourfold/optim/adamw.hpp"

namespace fourfold::test {

using at::Tensor;
using grid::Axes;
using grid::Axis;
using tensor::Mesh;
using tensor::Purpose;

namespace {

constexpr std::int64_t kRows = 10;  // padded at both levels of z=2, x=2
constexpr std::int64_t kColumns = 3;
constexpr int kSteps = 3;

/// The sum of the products of a weight's elements with those of an input. Every rank has an input
/// of its own.
class Scale {
 public:
  explicit Scale(const Mesh& mesh) : mesh_(&mesh) {
    // Stages make different layers, in different orders.
    if (mesh.coord()[Axis::kPipe] % 2 == 1) {
      mesh.join({Axis::kPipe, Axis::kData}, Purpose::kGradients);
      mesh.join({Axis::kData, Axis::kPipe}, Purpose::kWeights);
      mesh.join({Axis::kZ, Axis::kX}, Purpose::kGradients);
    }
    mesh.join({Axis::kZ, Axis::kX});
    mesh.join({Axis::kData, Axis::kPipe});
    weight_ =
        std::make_shared<nn::Parameter>(mesh,
                                        nn::ParameterSpec{.name = "scale.weight",
                                                          .shape = {kRows, kColumns},
                                                          .gathered = {Axis::kZ, Axis::kX},
                                                          .summed = {Axis::kZ, Axis::kX},
                                                          .replicas = {Axis::kData, Axis::kPipe},
                                                          .deviation = 1},
                                        nn::Precision::float64(), 7);
  }

  const nn::ParameterPtr& weight() const { return weight_; }

  /// Both passes. Returns the sum over all ranks.
  double pass(tensor::InFlight& in_flight, const Tensor& input) const {
    const auto use = weight_->use(in_flight);
    Tensor sum = weight_->gather(in_flight).mul(input).sum().reshape({1});
    for (const Axes& axes : {Axes{Axis::kZ, Axis::kX}, Axes{Axis::kData, Axis::kPipe}}) {
      mesh_->comm(axes).all_reduce(tensor::view(sum)).wait();
    }
    const nn::Parameter::Slot slot = use->slot(at::kDouble);
    if (slot.into == kernels::Into::kNew) slot.tensor.zero_();
    slot.tensor.add_(input);
    use->end();
    in_flight.sums_issued();
    return sum.item<double>();
  }

 private:
  const Mesh* mesh_;
  nn::ParameterPtr weight_;
};

Tensor input_of(int rank, int step) {
  Tensor input = at::empty({kRows, kColumns}, at::kDouble);
  const grid::Block all{{{0, kRows}, {0, kColumns}}};
  const std::string name = "input " + std::to_string(rank) + " " + std::to_string(step);
  kernels::fill_normal(input, {kRows, kColumns}, all, kernels::key_of(3, name), 1);
  return input;
}

struct Trained {
  std::vector<double> sums;
  std::vector<double> squares;
  Tensor weight;
};

Trained train(const Mesh& mesh, const std::function<Tensor(int step)>& input) {
  const Scale layer(mesh);
  optim::AdamW optimizer(mesh, {layer.weight()}, {});
  Trained trained;
  for (int number = 1; number <= kSteps; ++number) {
    tensor::InFlight in_flight(mesh);
    optim::AdamW::Step step = optimizer.begin_step(in_flight);
    step.begin_pass();
    trained.sums.push_back(layer.pass(in_flight, input(number)));
    double squares = step.reduce_gradients().item<double>();
    mesh.everyone().all_reduce({&squares, 1, schedule::DType::kF64}).wait();
    trained.squares.push_back(squares);
    step.update(number, 0.1, 1);
  }
  tensor::InFlight in_flight(mesh);
  trained.weight = layer.weight()->gather(in_flight);
  return trained;
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-10 * std::max(1.0, std::abs(b));
}

}  // namespace

void check_own_groups(comm::World& world, const grid::Sizes& sizes) {
  const Mesh mesh(world, grid::Grid(sizes));
  const Trained found = train(mesh, [&](int step) { return input_of(world.rank(), step); });

  comm::World alone = comm::self::open();
  const Trained expected = train(Mesh(alone, grid::Grid()), [&](int step) {
    Tensor sum = input_of(0, step);
    for (int rank = 1; rank < world.size(); ++rank) sum.add_(input_of(rank, step));
    return sum;
  });
  for (std::size_t i = 0; i < kSteps; ++i) {
    expect_on_all_ranks(world, near(found.sums[i], expected.sums[i]), "the result of the layer");
    expect_on_all_ranks(world, near(found.squares[i], expected.squares[i]), "the gradient");
  }
  const double difference = found.weight.sub(expected.weight).abs().max().item<double>();
  expect_on_all_ranks(world, difference <= 1e-10, concat("the weight differs by ", difference));
}

}  // namespace fourfold::test
