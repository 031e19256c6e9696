// A training step with every overlap off, each alone, and all on, in one run: where its time goes.
//   mpirun ... build/release/bench/overlap CONFIG GRID ROUNDS SETTING,... [section.key=value...]
// A setting is "none", "all" or the name of one switch; the first is what others are compared with.
// bench/overlap.sh runs it on one host and across two.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
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
    return sorted(values)[values.size() / 2];
  }

  /// By how many percent each round took longer than the same round of `other`, in order.
  std::vector<double> changes(double Round::*what, const Case& other) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const double before = other.rounds[i].*what;
      values.push_back(before > 0 ? 100 * (rounds[i].*what / before - 1) : 0);
    }
    return sorted(values);
  }

  static std::vector<double> sorted(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values;
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
  c.trainer->finish();
  c.mesh.everyone().barrier().wait();
}

/// The overlaps of a setting, with the sizes of `given`.
Overlap named(const std::string& setting, const Overlap& given) {
  if (setting == "all") return given;
  Overlap one = given;
  bool known = setting == "none";
  const auto only = [&](const char* name, bool Overlap::*on) {
    one.*on = setting == name;
    known |= one.*on;
  };
  only("input_gradients", &Overlap::input_gradients);
  only("weight_gradients", &Overlap::weight_gradients);
  only("weights", &Overlap::weights);
  only("keep_weights", &Overlap::keep_weights);
  only("data", &Overlap::data);
  only("halves", &Overlap::halves);
  only("panels", &Overlap::panels);
  if (!known) throw ConfigError("there is no overlap '" + setting + "'");
  return one;
}

void print(const std::vector<std::unique_ptr<Case>>& cases) {
  std::printf(
      "| overlaps | step s | compute s | communication s | exposed s | sent MB | step | its rounds "
      "| exposed |\n|---|---|---|---|---|---|---|---|---|\n");
  using Round = Case::Round;
  for (const auto& c : cases) {
    const double step = c->median(&Round::seconds);
    const double exposed = c->median(&Round::exposed);
    const std::vector<double> steps = c->changes(&Round::seconds, *cases.front());
    const std::vector<double> waits = c->changes(&Round::exposed, *cases.front());
    std::printf(
        "| %s | %.3f | %.3f | %.3f | %.3f | %.0f | %+.1f%% | %+.1f to %+.1f%% | %+.0f%% |\n",
        c->name.c_str(), step, step - exposed, c->median(&Round::communication), exposed,
        c->median(&Round::sent) / 1e6, steps[steps.size() / 2], steps.front(), steps.back(),
        waits[waits.size() / 2]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: overlap CONFIG GRID ROUNDS SETTING,... [section.key=value...]\n");
    return 2;
  }
  tensor::keep_freed_memory();
  auto world = comm::mpi::open();
  config::Source source;
  source.path = argv[1];
  source.grid = argv[2];
  source.overrides.assign(argv + 5, argv + argc);
  const config::Config config = config::read(source);
  const train::Recipe recipe = train::recipe_of(config);
  const grid::Grid grid(config.parallel.sizes, config.parallel.placement);
  const std::int64_t vocabulary = config.model.vocab;
  const train::ReadSample read =
      train::read_tokens([&](std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) {
        for (std::int64_t i = 0; i < config.model.context; ++i) {
          tokens[i] = (sample * 131 + i * 17) % vocabulary;
          targets[i] = (sample * 131 + i * 17 + 17) % vocabulary;
        }
      });

  std::vector<std::unique_ptr<Case>> cases;
  std::istringstream settings(argv[4]);
  for (std::string name; std::getline(settings, name, ',');) {
    cases.push_back(std::make_unique<Case>(world, name, recipe, named(name, recipe.overlap), grid));
  }
  // Each round has every setting, one right after the other, there and back again: a shared machine
  // drifts, ratios inside a round do not.
  const int rounds = std::max(1, std::atoi(argv[3]));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      run_round(world, *cases[round % 2 == 0 ? i : cases.size() - 1 - i], read);
    }
  }
  if (world.rank() == 0) print(cases);
  world.leave();
}
