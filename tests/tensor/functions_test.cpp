// Collectives that gradients flow through: values against a serial computation, gradients as
// adjoints and against finite differences, and what they issue.
//
// What is summed over ranks follows from how a value lies over the group (functions.hpp). Inner
// products and losses of copies count once, and copies are perturbed on all ranks together; of
// every other value each rank has its own, which counts and is perturbed by itself.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/functions.hpp"

#include <array>
#include <cmath>
#include <functional>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/recording/recording.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using comm::Communicator;
using schedule::Op;
using Sizes = std::vector<std::int64_t>;

constexpr std::array kRanks = {1, 2, 3, 5};

/// The arguments of all ranks, in one place, and the rank whose result is asked for.
struct Members {
  std::vector<Tensor> all;
  int rank = 0;
  std::int64_t dim = 0;

  Tensor joined() const { return at::cat(all, dim); }
  Tensor sum() const { return at::stack(all).sum(0); }
  Tensor part(const Tensor& whole) const {
    const std::int64_t size = whole.size(dim) / static_cast<std::int64_t>(all.size());
    return whole.narrow(dim, rank * size, size);
  }
  /// Not the first member, where there is another.
  std::size_t root() const { return all.size() / 2; }
  bool is_root() const { return static_cast<std::size_t>(rank) == root(); }
};

struct Function {
  std::string name;
  std::function<Tensor(const Communicator&, const Tensor&, std::int64_t dim)> run;
  std::function<Tensor(const Members&)> serial;
  bool along = false;         // a dimension
  bool takes_whole = false;   // the argument's size is a multiple of the group's
  bool takes_copies = false;  // before it is copies
  bool gives_copies = false;  // after it is
  std::vector<Op> issued;     // by forward and backward, in a group of more than one
  bool differentiable = true;
};

/// Functions that have no dimension, with one.
auto plain(Tensor (*function)(const Communicator&, const Tensor&)) {
  return [=](const Communicator& comm, const Tensor& x, std::int64_t) { return function(comm, x); };
}

auto rooted(Tensor (*function)(const Communicator&, const Tensor&, int)) {
  return [=](const Communicator& comm, const Tensor& x, std::int64_t) {
    return function(comm, x, comm.size() / 2);
  };
}

std::vector<Function> functions() {
  return {
      {.name = "split_to_each",
       .run = tensor::split_to_each,
       .serial = [](const Members& m) { return m.joined(); },
       .along = true,
       .issued = {Op::kAllGather, Op::kReduceScatter}},
      {.name = "partial_to_split",
       .run = tensor::partial_to_split,
       .serial = [](const Members& m) { return m.part(m.sum()); },
       .along = true,
       .takes_whole = true,
       .issued = {Op::kReduceScatter, Op::kAllGather}},
      {.name = "copies_to_split",
       .run = tensor::copies_to_split,
       .serial = [](const Members& m) { return m.part(m.all[0]); },
       .along = true,
       .takes_whole = true,
       .takes_copies = true,
       .issued = {Op::kAllGather}},
      {.name = "split_to_copies",
       .run = tensor::split_to_copies,
       .serial = [](const Members& m) { return m.joined(); },
       .along = true,
       .gives_copies = true,
       .issued = {Op::kAllGather}},
      {.name = "partial_to_copies",
       .run = plain(tensor::partial_to_copies),
       .serial = [](const Members& m) { return m.sum(); },
       .gives_copies = true,
       .issued = {Op::kAllReduce}},
      {.name = "copies_to_each",
       .run = plain(tensor::copies_to_each),
       .serial = [](const Members& m) { return m.all[0]; },
       .takes_copies = true,
       .issued = {Op::kAllReduce}},
      {.name = "root_to_each",
       .run = rooted(tensor::root_to_each),
       .serial = [](const Members& m) { return m.all[m.root()]; },
       .issued = {Op::kBroadcast, Op::kReduce}},
      {.name = "partial_to_root",
       .run = rooted(tensor::partial_to_root),
       .serial = [](const Members& m) { return m.is_root() ? m.sum() : at::zeros_like(m.all[0]); },
       .issued = {Op::kReduce, Op::kBroadcast}},
      {.name = "maximum_to_copies",
       .run = plain(tensor::maximum_to_copies),
       .serial = [](const Members& m) { return std::get<0>(at::stack(m.all).max(0)); },
       .gives_copies = true,
       .issued = {Op::kAllReduce},
       .differentiable = false},
  };
}

/// Values that look random, the same wherever they are made. Copies are those of rank 0.
Tensor values(at::IntArrayRef sizes, int seed, bool copies, int rank) {
  const double phase = 0.37 * seed + (copies ? 0 : 1.9 * rank);
  const std::int64_t count = c10::multiply_integers(sizes);
  return at::arange(count, at::kDouble).mul_(2.3).add_(phase).sin_().view(sizes);
}

/// One function on one rank.
struct Case {
  comm::World* world;
  Communicator comm;
  const Function* function;
  std::int64_t dim;

  std::string where() const { return concat(function->name, " along ", dim); }
  Tensor run(const Tensor& x) const { return function->run(comm, x, dim); }

  Tensor argument(int seed, int rank) const {
    Sizes sizes = {3, 5, 2};
    if (function->takes_whole) sizes[static_cast<std::size_t>(dim)] *= comm.size();
    return values(sizes, seed, function->takes_copies, rank);
  }
  Tensor argument(int seed) const { return argument(seed, comm.rank()); }
  /// A tensor of the form of a result, such as its gradient.
  Tensor like_result(const Tensor& result, int seed) const {
    return values(result.sizes(), seed, function->gives_copies, comm.rank());
  }

  double over_ranks(double own, bool copies) const {
    std::array<double, 1> sum = {copies && comm.rank() > 0 ? 0 : own};
    comm.all_reduce(comm::view(sum)).wait();
    return sum[0];
  }
  double dot_results(const Tensor& a, const Tensor& b) const {
    return over_ranks(a.mul(b).sum().item<double>(), function->gives_copies);
  }
  double dot_arguments(const Tensor& a, const Tensor& b) const {
    return over_ranks(a.mul(b).sum().item<double>(), function->takes_copies);
  }

  /// This rank's part of a loss that is not linear in the result.
  Tensor own_loss(const Tensor& x) const {
    const Tensor y = run(x);
    return like_result(y, 7).mul(y.sin()).sum();
  }
  double loss(const Tensor& x) const {
    return over_ranks(own_loss(x).item<double>(), function->gives_copies);
  }
  Tensor gradient(const Tensor& x, bool graph = false) const {
    const Tensor leaf = graph ? x : x.detach().clone().set_requires_grad(true);
    return torch::autograd::grad({own_loss(leaf)}, {leaf}, {}, graph, graph)[0];
  }

  void expect_near(double a, double b, double tolerance, const char* what) const {
    expect_on_all_ranks(*world, std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)),
                        concat(where(), ": ", what, " ", a, " against ", b));
  }
};

/// Runs `body` for every function, dimension and number of ranks.
void for_each_case(const std::function<void(const Case&)>& body) {
  const std::vector<Function> all = functions();
  for (const int ranks : kRanks) {
    on_threads(ranks, [&](comm::World& world) {
      const Communicator comm = world.communicator(everyone(world));
      for (const Function& function : all) {
        for (std::int64_t dim = 0; dim < (function.along ? 3 : 1); ++dim) {
          body({&world, comm, &function, dim});
        }
      }
    });
  }
}

double largest(const Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

TEST(Functions, ValuesEqualSerialOnes) {
  for_each_case([](const Case& c) {
    Members members{.all = {}, .rank = c.comm.rank(), .dim = c.dim};
    for (int rank = 0; rank < c.comm.size(); ++rank) members.all.push_back(c.argument(1, rank));
    const Tensor expected = c.function->serial(members);
    const Tensor own = c.argument(1);
    const Tensor strided = own.transpose(0, 1).contiguous().transpose(0, 1);
    for (const Tensor& x : {own.clone(), strided}) {
      const Tensor y = c.run(x);
      const bool fits = y.sizes() == expected.sizes();
      const double error = fits ? largest(y.sub(expected)) : INFINITY;
      expect_on_all_ranks(*c.world, error <= 1e-14, concat(c.where(), ": error ", error));
      expect_on_all_ranks(*c.world, at::equal(x, own), c.where() + ": changes its argument");
      const bool fresh = y.is_contiguous() && !y.is_alias_of(x);
      const bool alone = c.comm.size() == 1 && c.function->differentiable;
      const bool shared = c.function->name == "copies_to_each";
      expect_on_all_ranks(*c.world, alone ? y.is_same(x) : shared || fresh,
                          c.where() + ": the memory of its result");
    }
  });
}

TEST(Functions, GradientsAreAdjoint) {
  for_each_case([](const Case& c) {
    if (!c.function->differentiable) return;
    const Tensor x = c.argument(1).set_requires_grad(true);
    const Tensor dx = c.argument(2);
    const Tensor y = c.run(x);
    const Tensor dy = c.like_result(y, 3);
    const Tensor kept = dy.clone();
    const Tensor back = torch::autograd::grad({y}, {x}, {dy})[0];
    expect_on_all_ranks(*c.world, at::equal(dy, kept), c.where() + ": changes the gradient");
    c.expect_near(c.dot_results(dy, c.run(dx)), c.dot_arguments(back, dx), 1e-13, "adjoint");
  });
}

TEST(Functions, GradientsEqualFiniteDifferences) {
  constexpr double kStep = 1e-4;
  for_each_case([](const Case& c) {
    if (!c.function->differentiable) return;
    const Tensor x = c.argument(1);
    const Tensor gradient = c.gradient(x).flatten();
    double worst = 0;
    const bool copies = c.function->takes_copies;
    for (int rank = 0; rank < (copies ? 1 : c.comm.size()); ++rank) {
      const bool here = copies || rank == c.comm.rank();
      for (std::int64_t i = 0; i<x.numel(); i += c.comm.size()> 3 ? 7 : 1) {
        const auto moved = [&](double step) {
          Tensor to = x.clone();
          if (here) to.view({-1})[i].add_(step);
          return c.loss(to);
        };
        const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
        const double error = here ? std::abs(slope - gradient[i].item<double>()) : 0;
        if (!(error <= worst)) worst = error;
      }
    }
    expect_on_all_ranks(*c.world, worst <= 1e-6, concat(c.where(), ": error ", worst));
  });
}

TEST(Functions, GradientsOfGradientsEqualFiniteDifferences) {
  constexpr double kStep = 1e-4;
  for_each_case([](const Case& c) {
    if (!c.function->differentiable) return;
    const Tensor v = c.argument(4);
    const Tensor u = c.argument(5);
    const Tensor x = c.argument(1).set_requires_grad(true);
    const Tensor product = c.gradient(x, true).mul(v).sum();
    const Tensor second = torch::autograd::grad({product}, {x})[0];
    const auto moved = [&](double step) {
      return c.dot_arguments(c.gradient(x.detach().add(u, step)), v);
    };
    const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    c.expect_near(c.dot_arguments(second, u), slope, 1e-6, "second derivative");
  });
}

/// A narrow type gives what float64 gives for the same arguments, up to its rounding.
void expect_type(const Case& c, at::ScalarType type, double tolerance) {
  const auto both = [&](const Tensor& argument) -> std::vector<Tensor> {
    const Tensor x = argument.detach().clone().set_requires_grad(c.function->differentiable);
    const Tensor y = c.run(x);
    if (!c.function->differentiable) return {y};
    const Tensor dy = c.like_result(y, 3).to(type).to(y.scalar_type());
    return {y, torch::autograd::grad({y}, {x}, {dy})[0]};
  };
  const Tensor x = c.argument(1).to(type);
  const std::vector<Tensor> narrow = both(x);
  const std::vector<Tensor> wide = both(x.to(at::kDouble));
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const double error = largest(narrow[i].to(at::kDouble).sub(wide[i]));
    const bool right = narrow[i].scalar_type() == type && error <= tolerance;
    expect_on_all_ranks(*c.world, right,
                        concat(c.where(), " of ", c10::toString(type), ": error ", error));
  }
}

TEST(Functions, NarrowTypes) {
  for_each_case([](const Case& c) {
    expect_type(c, at::kFloat, 1e-6);
    expect_type(c, at::kBFloat16, 0x1p-8 * c.comm.size());  // half a unit of sums up to so many
  });
}

TEST(Functions, MaximumRefusesGradientsOnAllRanks) {
  for (const int ranks : kRanks) {
    on_threads(ranks, [](comm::World& world) {
      const Communicator comm = world.communicator(everyone(world));
      const Tensor x = at::full({3}, world.rank(), at::kDouble).set_requires_grad(true);
      const Tensor y = tensor::maximum_to_copies(comm, x).sum();
      std::string said = "nothing";
      try {
        y.backward();
      } catch (const InvariantError& error) {
        said = error.what();
      }
      expect_on_all_ranks(world, said.find("no gradient of the maximum") != std::string::npos,
                          "it said: " + said);
    });
  }
}

// --- what is issued

struct Recorded {
  schedule::Schedule schedule;
  std::vector<Sizes> sizes;  // of the result, and of the argument's gradient
};

/// Forward and backward with tensors of `device`, written down.
Recorded record(const Case& c, c10::Device device) {
  Recorded result;
  const comm::Recording recording(*c.world, result.schedule);
  const Tensor x = at::empty_like(c.argument(1), device).set_requires_grad(true);
  if (!x.is_meta()) x.detach().zero_();
  const Tensor y = c.run(x);
  result.sizes.push_back(y.sizes().vec());
  if (c.function->differentiable) {
    // The gradient of a sum is not contiguous.
    result.sizes.push_back(torch::autograd::grad({y.sum()}, {x})[0].sizes().vec());
  }
  return result;
}

std::vector<Op> issued(const schedule::Schedule& schedule) {
  std::vector<Op> all;
  for (const schedule::Step& step : schedule.steps()) {
    if (const auto* issue = std::get_if<schedule::Issue>(&step)) {
      all.push_back(issue->collective.op);
    }
  }
  return all;
}

TEST(Functions, DryRunsIssueWhatRealRunsDo) {
  for_each_case([](const Case& c) {
    const Recorded real = record(c, at::kCPU);
    auto dry_world = comm::recording::open(c.world->rank(), c.world->size());
    Case dry_case = c;
    dry_case.world = &dry_world;
    dry_case.comm = dry_world.communicator(everyone(dry_world));
    const Recorded dry = record(dry_case, at::kMeta);
    const std::vector<Op> expected = c.comm.size() > 1 ? c.function->issued : std::vector<Op>();
    expect_on_all_ranks(*c.world, issued(real.schedule) == expected,
                        concat(c.where(), " issues:\n", real.schedule));
    expect_on_all_ranks(*c.world, real.schedule == dry.schedule,
                        concat(c.where(), ", real:\n", real.schedule, "dry:\n", dry.schedule));
    expect_on_all_ranks(*c.world, real.sizes == dry.sizes, c.where() + ": sizes");
  });
}

TEST(Functions, MistakesThrow) {
  auto world = comm::recording::open(1, 3);
  const Communicator comm = world.communicator(everyone(world));
  const Tensor x = at::zeros({3, 7});
  EXPECT_THROW(tensor::partial_to_split(comm, x, 1), InvariantError);
  EXPECT_THROW(tensor::copies_to_split(comm, x, -1), InvariantError);
  EXPECT_THROW(tensor::split_to_each(comm, x, 2), InvariantError);
  EXPECT_THROW(tensor::split_to_copies(comm, x, -3), InvariantError);
  EXPECT_THROW(tensor::split_to_copies(comm, at::zeros({}), 0), InvariantError);
  EXPECT_THROW(tensor::root_to_each(comm, x, 3), InvariantError);
  EXPECT_THROW(tensor::partial_to_root(comm, x, -1), InvariantError);
  auto small_world = comm::recording::open(0, 1);
  const Communicator alone = small_world.communicator(everyone(small_world));
  EXPECT_THROW(tensor::root_to_each(alone, x, 1), InvariantError);
  EXPECT_THROW(tensor::partial_to_root(alone, x, 1), InvariantError);
  EXPECT_EQ(tensor::split_to_each(comm, x, -1).sizes(), (Sizes{3, 21}));
  const std::vector<Function> all = functions();
  for (const Function& function : all) {
    for (const Tensor& wrong : {x.to(at::kLong), x.to(at::kHalf), Tensor()}) {
      EXPECT_THROW(function.run(comm, wrong, 0), InvariantError) << function.name;
    }
  }
}

}  // namespace
}  // namespace fourfold::test
