// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/replay.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fourfold/base/check.hpp"
#include "fourfold/plan/program.hpp"
#include "fourfold/plan/replay_trace.hpp"
#include "fourfold/plan/simulation.hpp"

namespace fourfold::plan {

namespace {

/// The duration of a step of a place, counted from 0.
double duration(const Simulation::Place& place, std::size_t step) {
  return place.ends[step] - (step == 0 ? 0 : place.ends[step - 1]);
}

/// Whether the last two steps took equally long in all places.
bool repeats(const Simulation& simulation, std::size_t steps) {
  constexpr double kEqual = 1e-9;
  return std::all_of(simulation.places().begin(), simulation.places().end(),
                     [&](const Simulation::Place& place) {
                       const double last = duration(place, steps - 1);
                       return std::abs(last - duration(place, steps - 2)) <= kEqual * last;
                     });
}

PlaceTime time_of(const Simulation::Place& place, const Program& program, std::size_t step) {
  PlaceTime time{
      .step = Seconds(duration(place, step)), .compute = {}, .exposed = {}, .exposed_by_axes = {}};
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Seconds exposed(place.exposed[step][i]);
    if (exposed == Seconds()) continue;
    time.exposed += exposed;
    time.exposed_by_axes[grid::to_string(program.channels[i].issues[0]->axes)] += exposed;
  }
  time.compute = time.step - time.exposed;
  return time;
}

/// Runs until the time of a step repeats, and returns the number of steps.
std::size_t run_until_it_repeats(Simulation& simulation, std::size_t most) {
  std::size_t steps = 2;
  simulation.run(steps);
  while (!repeats(simulation, steps) && steps < most) simulation.run(++steps);
  return steps;
}

double slowest(const Simulation& simulation, std::size_t steps) {
  double step = 0;
  for (const Simulation::Place& place : simulation.places()) {
    step = std::max(step, duration(place, steps - 1));
  }
  return step;
}

/// The longest time that the NICs of a place are used in a step.
double nics_of(const Program& program) {
  double time = 0;
  for (const auto& places : {program.out, program.in}) {
    for (const NicTime& place : places) time = std::max(time, place.all());
  }
  return time;
}

/// What groups that use NICs in turn leave to each other in a step of so many seconds; all of them
/// at once have the smallest part.
void limit_nics(Simulation& simulation, const Program& program, double step) {
  const auto part = [&](const NicTime& nics) {
    return std::max(1 - nics.others / step, 1.0 / program.apart);
  };
  for (std::size_t place = 0; place < program.places.size(); ++place) {
    simulation.limit_nics(place, part(program.out[place]), part(program.in[place]));
  }
}

}  // namespace

const PlaceTime& Replayed::busiest() const {
  return *std::max_element(
      places.begin(), places.end(),
      [](const PlaceTime& a, const PlaceTime& b) { return a.compute < b.compute; });
}

Replayed replay(const std::vector<schedule::Schedule>& places, const grid::Grid& grid,
                const cluster::Cluster& cluster, const ReplayOptions& options) {
  FOURFOLD_CHECK(options.most_steps >= 2);
  const Program program = prepare(places, grid, cluster);
  const auto most = static_cast<std::size_t>(options.most_steps);
  std::optional<Simulation> run(std::in_place, program, cluster, most, options.traces);
  std::size_t steps = run_until_it_repeats(*run, most);
  if (program.apart > 1 && !options.never_in_the_way) {
    const double used = nics_of(program);
    for (const double step : {std::max(slowest(*run, steps), used), used}) {
      run.emplace(program, cluster, most, options.traces);
      limit_nics(*run, program, step);
      steps = run_until_it_repeats(*run, most);
      if (slowest(*run, steps) >= used) break;  // otherwise NICs would carry more than they can
    }
  }
  const Simulation& simulation = *run;

  Replayed result;
  result.steps = static_cast<int>(steps);
  result.periodic = repeats(simulation, steps);
  for (const Simulation::Place& place : simulation.places()) {
    result.places.push_back(time_of(place, program, steps - 1));
    result.step = std::max(result.step, result.places.back().step);
  }
  if (options.traces) result.traces = traces_of(simulation, steps - 1, grid, cluster);
  return result;
}

}  // namespace fourfold::plan
