// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/measure_links.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "fourfold/base/text.hpp"
#include "fourfold/schedule/wire.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/transfer.hpp"

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
  Gather(const comm::Communicator& comm, std::int64_t bytes, c10::Device device)
      : comm_(&comm),
        in_(at::ones({std::max<std::int64_t>(1, bytes / 4)},
                     at::TensorOptions(at::kFloat).device(device))),
        out_(at::zeros({in_.numel() * comm.size()}, in_.options())) {}

  void run(int times) {
    for (int i = 0; i < times; ++i) comm_->all_gather(tensor::view(in_), tensor::view(out_)).wait();
    tensor::wait_for_device(in_.device());
  }
  /// How many latencies one of them takes.
  double steps() const {
    const schedule::Collective c{
        .op = schedule::Op::kAllGather, .dtype = schedule::DType::kF32, .count = out_.numel()};
    return schedule::algorithm_of(c, comm_->size()) == schedule::Algorithm::kCirculant
               ? schedule::rounds_of(comm_->size())
               : comm_->size() - 1;
  }
  double sent() const { return static_cast<double>(in_.nbytes()) * (comm_->size() - 1); }

 private:
  const comm::Communicator* comm_;
  at::Tensor in_;
  at::Tensor out_;
};

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The time of one step of an operation with messages of so many bytes.
Seconds step_of(const comm::Communicator& comm, const comm::Communicator& everyone,
                std::int64_t bytes, int rounds, const Work& work, c10::Device device) {
  // Many short rounds: a pause of the machine spoils one of them, not the median.
  constexpr int kInARow = 4;
  const int short_rounds = 7 * rounds;
  Gather little(comm, bytes, device);
  little.run(kInARow);
  Seconds time = slowest(everyone, short_rounds, [&] { little.run(kInARow); });
  if (work) {
    // Work alone and work with operations take turns, so that a slow moment hits both.
    std::vector<Seconds> more;
    for (int i = 0; i < short_rounds; ++i) {
      const Seconds alone = once(everyone, [&] { work(kInARow, [] {}); });
      more.push_back(once(everyone, [&] { work(kInARow, [&] { little.run(1); }); }) - alone);
    }
    time = std::max(time, median(std::move(more)));
  }
  return time * (1 / (kInARow * little.steps()));
}

}  // namespace

cluster::MeasuredGroup measure_group(const comm::Communicator& comm,
                                     const comm::Communicator& everyone,
                                     const cluster::GroupShape& shape, int rounds, const Work& work,
                                     c10::Device device) {
  constexpr std::int64_t kShort = 64;
  const std::int64_t long_bytes = cluster::kLongMessage.value();
  const Seconds latency = step_of(comm, everyone, kShort, rounds, work, device);
  const Seconds long_step = step_of(comm, everyone, long_bytes, rounds, work, device);
  // First some bytes to see how many are needed.
  std::int64_t bytes = 64 << 10;
  double bandwidth = 0;
  for (;;) {
    Gather large(comm, bytes, device);
    const double time = slowest(everyone, rounds, [&] { large.run(1); }).value();
    bandwidth = large.sent() / std::max(1e-9, time);
    if (time >= kLongEnough || bytes >= kMostBytes) break;
    const double more = std::clamp(1.2 * kLongEnough / time, 2.0, 16.0);
    bytes = std::min(kMostBytes, static_cast<std::int64_t>(static_cast<double>(bytes) * more));
  }
  const Gather gather(comm, long_bytes, device);
  const Seconds sent(gather.sent() / (gather.steps() * bandwidth));
  return {shape, latency, BytesPerSecond(bandwidth), std::max(latency, long_step - sent)};
}

Seconds slowest(const comm::Communicator& everyone, int rounds, const std::function<void()>& run) {
  std::vector<Seconds> times;
  for (int i = 0; i < rounds; ++i) times.push_back(once(everyone, run));
  return median(std::move(times));
}

Seconds fastest(const comm::Communicator& everyone, int rounds, const std::function<void()>& run) {
  Seconds best = once(everyone, run);
  for (int i = 1; i < rounds; ++i) best = std::min(best, once(everyone, run));
  return best;
}

namespace {

/// Several measurements of one kind of group as one.
cluster::MeasuredGroup summary_of(const std::vector<cluster::MeasuredGroup>& found) {
  std::vector<Seconds> latencies;
  std::vector<Seconds> long_latencies;
  std::vector<double> bandwidths;
  for (const cluster::MeasuredGroup& one : found) {
    latencies.push_back(one.latency);
    long_latencies.push_back(one.long_latency.value());
    bandwidths.push_back(one.bandwidth.value());
  }
  const Seconds latency = lower_quartile(std::move(latencies));
  return {found.front().shape, latency, BytesPerSecond(median(std::move(bandwidths))),
          std::max(latency, lower_quartile(std::move(long_latencies)))};
}

}  // namespace

std::vector<cluster::MeasuredGroup> measure_groups(
    comm::World& world, const comm::Communicator& everyone, int ranks_per_host, int rounds,
    const Work& work, const std::function<void(const std::string&)>& show, c10::Device device) {
  struct Kind {
    cluster::GroupShape shape;
    comm::Communicator comm;
    std::vector<cluster::MeasuredGroup> found;
  };
  std::vector<Kind> kinds;
  std::set<cluster::GroupShape> seen;
  const int ranks = world.size();
  for (int distance = 1; distance < ranks; ++distance) {
    if (ranks % distance != 0) continue;
    for (int members = 2; members * distance <= ranks; ++members) {
      if (ranks / distance % members != 0) continue;
      // Along y neighbours are `distance` apart.
      const grid::Grid grid({.x = distance, .y = members, .z = ranks / distance / members});
      const cluster::GroupShape shape = cluster::shape_of(grid, Axis::kY, ranks_per_host);
      comm::Communicator comm = world.communicator(grid.group(Axis::kY, world.rank()));
      if (seen.insert(shape).second) kinds.push_back({shape, std::move(comm), {}});
    }
  }
  // A disturbance of some seconds spoils one of the rounds, and not all measurements of one kind.
  for (int round = 0; round < rounds; ++round) {
    for (Kind& kind : kinds) {
      if (show && world.rank() == 0) {
        show(concat("links: ", kind.shape, ", round ", round + 1, " of ", rounds));
      }
      kind.found.push_back(measure_group(kind.comm, everyone, kind.shape, 1, work, device));
    }
  }
  std::vector<cluster::MeasuredGroup> result;
  for (const Kind& kind : kinds) result.push_back(summary_of(kind.found));
  return result;
}

}  // namespace fourfold::planner
