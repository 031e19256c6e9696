// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/measure_links.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "fourfold/base/text.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::planner {

using grid::Axis;

namespace {

/// Long enough that starting and ending do not matter, short enough for many groups.
constexpr double kLongEnough = 0.2;
constexpr std::int64_t kMostBytes = 64 << 20;

Seconds once(const comm::Communicator& everyone, const std::function<void()>& run) {
  everyone.barrier().wait();
  const Seconds begin = now();
  run();
  std::array<double, 1> time = {(now() - begin).value()};
  everyone.all_reduce(comm::view(time), comm::ReduceOp::kMax).wait();
  return Seconds(time[0]);
}

/// An all_gather of so many bytes from each member, several times in a row.
class Gather {
 public:
  Gather(const comm::Communicator& comm, std::int64_t bytes)
      : comm_(&comm),
        in_(static_cast<std::size_t>(std::max<std::int64_t>(1, bytes / 4)), 1.F),
        out_(in_.size() * static_cast<std::size_t>(comm.size())) {}

  void run(int times) {
    for (int i = 0; i < times; ++i) comm_->all_gather(comm::view(in_), comm::view(out_)).wait();
  }
  /// How many latencies one of them takes.
  double steps() const {
    const schedule::Collective c{.op = schedule::Op::kAllGather,
                                 .dtype = schedule::DType::kF32,
                                 .count = static_cast<std::int64_t>(out_.size())};
    return schedule::algorithm_of(c, comm_->size()) == schedule::Algorithm::kCirculant
               ? schedule::rounds_of(comm_->size())
               : comm_->size() - 1;
  }
  double sent() const {
    return static_cast<double>(in_.size()) * sizeof(float) * (comm_->size() - 1);
  }

 private:
  const comm::Communicator* comm_;
  std::vector<float> in_;
  std::vector<float> out_;
};

/// The time of one step of an operation with messages of so many bytes.
Seconds step_of(const comm::Communicator& comm, const comm::Communicator& everyone,
                std::int64_t bytes, int rounds, const Work& work) {
  // Many short rounds: a pause of the machine spoils one of them, not the median.
  constexpr int kInARow = 4;
  const int short_rounds = 7 * rounds;
  Gather little(comm, bytes);
  little.run(kInARow);
  Seconds time = slowest(everyone, short_rounds, [&] { little.run(kInARow); });
  if (work) {
    const Seconds alone = slowest(everyone, short_rounds, [&] { work(kInARow, [] {}); });
    const Seconds both =
        slowest(everyone, short_rounds, [&] { work(kInARow, [&] { little.run(1); }); });
    time = std::max(time, both - alone);
  }
  return time * (1 / (kInARow * little.steps()));
}

}  // namespace

cluster::MeasuredGroup measure_group(const comm::Communicator& comm,
                                     const comm::Communicator& everyone,
                                     const cluster::GroupShape& shape, int rounds,
                                     const Work& work) {
  constexpr std::int64_t kShort = 64;
  const std::int64_t long_bytes = cluster::kLongMessage.value();
  const Seconds latency = step_of(comm, everyone, kShort, rounds, work);
  const Seconds long_step = step_of(comm, everyone, long_bytes, rounds, work);
  // First some bytes to see how many are needed.
  std::int64_t bytes = 64 << 10;
  double bandwidth = 0;
  for (;;) {
    Gather large(comm, bytes);
    const double time = slowest(everyone, rounds, [&] { large.run(1); }).value();
    bandwidth = large.sent() / std::max(1e-9, time);
    if (time >= kLongEnough || bytes >= kMostBytes) break;
    const double more = std::clamp(1.2 * kLongEnough / time, 2.0, 16.0);
    bytes = std::min(kMostBytes, static_cast<std::int64_t>(static_cast<double>(bytes) * more));
  }
  const Gather gather(comm, long_bytes);
  const Seconds sent(gather.sent() / (gather.steps() * bandwidth));
  return {shape, latency, BytesPerSecond(bandwidth), std::max(latency, long_step - sent)};
}

Seconds slowest(const comm::Communicator& everyone, int rounds, const std::function<void()>& run) {
  std::vector<Seconds> times;
  for (int i = 0; i < rounds; ++i) times.push_back(once(everyone, run));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::vector<cluster::MeasuredGroup> measure_groups(
    comm::World& world, const comm::Communicator& everyone, int ranks_per_host, int rounds,
    const Work& work, const std::function<void(const std::string&)>& show) {
  std::vector<cluster::MeasuredGroup> found;
  std::set<cluster::GroupShape> seen;
  const int ranks = world.size();
  for (int distance = 1; distance < ranks; ++distance) {
    if (ranks % distance != 0) continue;
    for (int members = 2; members * distance <= ranks; ++members) {
      if (ranks / distance % members != 0) continue;
      // Along y neighbours are `distance` apart.
      const grid::Grid grid({.x = distance, .y = members, .z = ranks / distance / members});
      const cluster::GroupShape shape = cluster::shape_of(grid, Axis::kY, ranks_per_host);
      const comm::Communicator comm = world.communicator(grid.group(Axis::kY, world.rank()));
      if (!seen.insert(shape).second) continue;
      if (show && world.rank() == 0) show(concat("links: ", shape));
      found.push_back(measure_group(comm, everyone, shape, rounds, work));
    }
  }
  return found;
}

}  // namespace fourfold::planner
