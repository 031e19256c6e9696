// A training step with every overlap off, each alone, and all on, in one run: where its time goes.
//   mpirun ... build/release/bench/overlap CONFIG GRID ROUNDS [section.key=value...]
// bench/overlap.sh runs it on one host and across two.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/config/read.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/trainer.hpp"

namespace {

using namespace fourfold;
using tensor::Overlap;

/// Steps whose time is taken, behind one that brings the overlaps along data under way.
constexpr int kTimed = 2;

/// A setting, and a trainer that has it.
struct Case {
  Case(comm::World& world, std::string label, train::Recipe given, const Overlap& overlap,
       const grid::Grid& grid)
      : name(std::move(label)), recipe(std::move(given)), mesh(world, grid, overlap) {
    trainer = std::make_unique<train::Trainer>(mesh, recipe);
  }

  struct Round {
    double seconds;
    double exposed;
    double communication;
    double sent;
  };

  std::string name;
  train::Recipe recipe;
  tensor::Mesh mesh;
  std::unique_ptr<train::Trainer> trainer;
  std::int64_t step = 0;
  double loss = 0;
  std::vector<Round> rounds;

  double median(double Round::*what) const {
    std::vector<double> values;
    for (const Round& round : rounds) values.push_back(round.*what);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  double least(double Round::*what) const {
    double value = rounds[0].*what;
    for (const Round& round : rounds) value = std::min(value, round.*what);
    return value;
  }
};

void run_round(comm::World& world, Case& c, const train::ReadSample& read) {
  c.trainer->step(++c.step, read);
  c.mesh.everyone().barrier().wait();
  world.reset_counters();
  const Seconds begin = now();
  for (int i = 0; i < kTimed; ++i) c.loss = c.trainer->step(++c.step, read).loss;
  const double seconds = (now() - begin).value();
  double communication = 0;
  double sent = 0;
  const comm::Counts counts = world.counters();
  for (const auto& [key, count] : counts) {
    communication += count.seconds.value();
    sent += static_cast<double>(count.wire.bytes.value());
  }
  c.rounds.push_back({seconds / kTimed, train::exposed(counts).value() / kTimed,
                      communication / kTimed, sent / kTimed});
  c.trainer->settle();
  c.mesh.everyone().barrier().wait();
}

Overlap only(const Overlap& given, bool Overlap::*on) {
  Overlap one = given;
  for (const auto each : {&Overlap::input_gradients, &Overlap::weight_gradients, &Overlap::weights,
                          &Overlap::keep_weights, &Overlap::data, &Overlap::halves}) {
    one.*each = each == on;
  }
  return one;
}

void print(const std::vector<std::unique_ptr<Case>>& cases) {
  std::printf(
      "| overlaps | step s | compute s | communication s | exposed s | sent MB | step | "
      "exposed | best step |\n|---|---|---|---|---|---|---|---|---|\n");
  using Round = Case::Round;
  const Case& none = *cases.front();
  for (const auto& c : cases) {
    const double step = c->median(&Round::seconds);
    const double exposed = c->median(&Round::exposed);
    const auto change = [](double now, double before) {
      return before > 0 ? 100 * (now / before - 1) : 0;
    };
    std::printf("| %s | %.3f | %.3f | %.3f | %.3f | %.0f | %+.1f%% | %+.0f%% | %+.1f%% |\n",
                c->name.c_str(), step, step - exposed, c->median(&Round::communication), exposed,
                c->median(&Round::sent) / 1e6, change(step, none.median(&Round::seconds)),
                change(exposed, none.median(&Round::exposed)),
                change(c->least(&Round::seconds), none.least(&Round::seconds)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: overlap CONFIG GRID ROUNDS [section.key=value...]\n");
    return 2;
  }
  tensor::keep_freed_memory();
  auto world = comm::mpi::open();
  config::Source source;
  source.path = argv[1];
  source.grid = argv[2];
  source.overrides.assign(argv + 4, argv + argc);
  const config::Config config = config::read(source);
  const train::Recipe recipe = train::recipe_of(config);
  const grid::Grid grid(config.parallel.sizes, config.parallel.placement);
  const std::int64_t vocabulary = recipe.model.vocabulary;
  const train::ReadSample read = [&](std::int64_t sample, std::int64_t* tokens,
                                     std::int64_t* targets) {
    for (std::int64_t i = 0; i < recipe.model.context; ++i) {
      tokens[i] = (sample * 131 + i * 17) % vocabulary;
      targets[i] = (sample * 131 + i * 17 + 17) % vocabulary;
    }
  };

  std::vector<std::unique_ptr<Case>> cases;
  const auto add = [&](const char* name, const Overlap& overlap) {
    cases.push_back(std::make_unique<Case>(world, name, recipe, overlap, grid));
  };
  add("none", only(recipe.overlap, nullptr));
  add("input_gradients", only(recipe.overlap, &Overlap::input_gradients));
  add("weight_gradients", only(recipe.overlap, &Overlap::weight_gradients));
  add("weights", only(recipe.overlap, &Overlap::weights));
  add("keep_weights", only(recipe.overlap, &Overlap::keep_weights));
  add("data", only(recipe.overlap, &Overlap::data));
  add("halves", only(recipe.overlap, &Overlap::halves));
  add("all", recipe.overlap);
  // Each round has every setting, one right after the other: a shared machine drifts, ratios do
  // not.
  const int rounds = std::atoi(argv[3]);
  for (int round = 0; round < rounds; ++round) {
    for (const auto& c : cases) run_round(world, *c, read);
  }
  if (world.rank() == 0) print(cases);
  world.leave();
}
