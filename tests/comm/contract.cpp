// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/contract.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recorder.hpp"

#include "tests/comm/contract_values.hpp"

namespace fourfold::test {

namespace {

using comm::Communicator;
using comm::DType;
using comm::Priority;
using comm::ReduceOp;
using schedule::Op;

template <class T>
void check_reductions(const Communicator& comm, std::int64_t n, Priority priority, ReduceOp op,
                      const std::string& name, Findings& findings) {
  const int p = comm.size();
  const int r = comm.rank();
  const auto own = [&](std::int64_t i) { return value_at(r, i); };
  const auto all = [&](std::int64_t i) { return reduced_at(p, i, op); };
  const auto all_of_chunk = [&](std::int64_t i) { return reduced_at(p, i + r * n, op); };

  auto data = filled<T>(n, own);
  comm.all_reduce(view(data), op, priority).wait();
  findings.expect_values(data, "all_reduce " + name, all);

  const auto in = filled<T>(n * p, own);
  Values<T> out(static_cast<std::size_t>(n));
  comm.reduce_scatter(view(in), view(out), op, priority).wait();
  findings.expect_values(out, "reduce_scatter " + name, all_of_chunk);
  findings.expect_values(in, "input of reduce_scatter " + name, own);

  auto in_place = in;
  const auto chunk =
      std::span(in_place).subspan(static_cast<std::size_t>(r * n), static_cast<std::size_t>(n));
  comm.reduce_scatter(view(in_place), view(chunk), op, priority).wait();
  findings.expect_values(Values<T>(chunk.begin(), chunk.end()), "reduce_scatter in place " + name,
                         all_of_chunk);

  const int root = p / 2;
  const auto part = filled<T>(n, own);
  Values<T> result(r == root ? static_cast<std::size_t>(n) : 0);
  comm.reduce(view(part), view(result), root, op, priority).wait();
  findings.expect_values(result, "reduce " + name, all);
  findings.expect_values(part, "input of reduce " + name, own);
}

template <class T>
void check_movements(const Communicator& comm, std::int64_t n, Priority priority,
                     const std::string& name, Findings& findings) {
  const int p = comm.size();
  const int r = comm.rank();
  const auto own = [&](std::int64_t i) { return value_at(r, i); };
  const auto gathered = [&](std::int64_t i) { return value_at(static_cast<int>(i / n), i % n); };

  const auto in = filled<T>(n, own);
  Values<T> out(static_cast<std::size_t>(n * p));
  comm.all_gather(view(in), view(out), priority).wait();
  findings.expect_values(out, "all_gather " + name, gathered);

  Values<T> in_place(static_cast<std::size_t>(n * p));
  const auto place =
      std::span(in_place).subspan(static_cast<std::size_t>(r * n), static_cast<std::size_t>(n));
  std::copy(in.begin(), in.end(), place.begin());
  comm.all_gather(view(place), view(in_place), priority).wait();
  findings.expect_values(in_place, "all_gather in place " + name, gathered);

  const int root = p - 1;
  auto data = filled<T>(n, own);
  comm.broadcast(view(data), root, priority).wait();
  findings.expect_values(data, "broadcast " + name,
                         [&](std::int64_t i) { return value_at(root, i); });

  if (p == 1) return;
  const int next = (r + 1) % p;
  const int previous = (r + p - 1) % p;
  Values<T> received(static_cast<std::size_t>(n));
  auto send = comm.send(view(in), next, priority);
  comm.recv(view(received), previous, priority).wait();
  send.wait();
  findings.expect_values(received, "send and recv " + name,
                         [&](std::int64_t i) { return value_at(previous, i); });
}

template <class T>
void check_dtype(const Communicator& comm, const ContractSizes& sizes, Findings& findings) {
  constexpr DType kDType = comm::kDTypeOf<T>;
  for (const Priority priority : {Priority::kUrgent, Priority::kBackground}) {
    auto counts = sizes.counts;
    const std::int64_t size = schedule::size_of(kDType);
    const std::int64_t segment = schedule::segments_of(priority).bytes.value() / size;
    if (sizes.around_segment && priority == Priority::kBackground) {
      counts.insert(counts.end(), {segment - 1, segment, segment + 1});
    }
    if (priority == Priority::kUrgent) {
      counts.push_back(sizes.large_bytes / size / comm.size());
    }
    for (const std::int64_t n : counts) {
      const std::string name =
          concat("of ", n, " ", kDType, " on ", comm.size(), " ranks, ", priority);
      check_movements<T>(comm, n, priority, name, findings);
      check_reductions<T>(comm, n, priority, ReduceOp::kSum, name + ", sum", findings);
      if (n <= 1009) {
        check_reductions<T>(comm, n, priority, ReduceOp::kMax, name + ", max", findings);
      }
    }
  }
}

/// What the counters of a recorded schedule must be.
std::map<comm::CounterKey, comm::Count> closed_form(const schedule::Schedule& recorded,
                                                    schedule::Reach reach) {
  std::map<comm::CounterKey, comm::Count> sums;
  for (const schedule::Step& step : recorded.steps()) {
    const auto* issue = std::get_if<schedule::Issue>(&step);
    if (issue == nullptr) continue;
    comm::Count& sum = sums[{issue->collective.op, to_string(issue->axes), issue->group_size}];
    ++sum.calls;
    sum.payload += issue->collective.payload();
    const bool on_device =
        contract_memory == comm::Memory::kDevice && issue->collective.op != Op::kBarrier;
    sum.wire +=
        on_device ? schedule::traffic_on_device(issue->collective, issue->group_size, issue->index)
                  : schedule::traffic_of(issue->collective, issue->group_size, issue->index, reach);
  }
  return sums;
}

schedule::Reach reach_of(const comm::World& world, const grid::Group& group) {
  const auto same_host = [&](int member) { return world.host(member) == world.host(world.rank()); };
  return std::all_of(group.members.begin(), group.members.end(), same_host)
             ? schedule::Reach::kHost
             : schedule::Reach::kNetwork;
}

void expect_counters(const comm::World& world, const schedule::Schedule& recorded,
                     schedule::Reach reach, Findings& findings) {
  const auto counts = world.counters();
  const auto expected = closed_form(recorded, reach);
  findings.expect(counts.size() == expected.size(), "the counters have other keys than expected");
  for (const auto& [key, want] : expected) {
    const auto found = counts.find(key);
    const bool right = found != counts.end() && found->second.calls == want.calls &&
                       found->second.payload == want.payload && found->second.wire == want.wire;
    findings.expect(
        right, concat("counter of ", key.op, " over ", key.axes, " differs from the closed form"));
  }
}

/// The ranks cut into groups of `size`, the last one smaller if need be.
grid::Group group_of(const comm::World& world, int size) {
  const int first = world.rank() / size * size;
  grid::Group group{grid::Axis::kX, {}, world.rank() - first};
  group.members.resize(static_cast<std::size_t>(std::min(size, world.size() - first)));
  std::iota(group.members.begin(), group.members.end(), first);
  return group;
}

}  // namespace

void check_operations(comm::World& world, int group_size, const ContractSizes& sizes) {
  FOURFOLD_CHECK(group_size <= world.size());
  const Communicator comm = world.communicator(group_of(world, group_size));
  schedule::Schedule recorded;
  Findings findings;
  world.reset_counters();
  comm::Recording recording(world, recorded);
  check_dtype<double>(comm, sizes, findings);
  check_dtype<float>(comm, sizes, findings);
  check_dtype<BFloat16>(comm, sizes, findings);
  check_dtype<std::int64_t>(comm, sizes, findings);
  for (int i = 0; i < 3; ++i) comm.barrier().wait();
  recording.stop();
  expect_counters(world, recorded, reach_of(world, comm.group()), findings);
  findings.judge(world);
}

void check_many_groups(comm::World& world, const grid::Grid& grid, int rounds) {
  using grid::Axis;
  const std::vector<grid::Axes> kinds = {Axis::kX,
                                         Axis::kY,
                                         Axis::kZ,
                                         {Axis::kY, Axis::kX},
                                         {Axis::kX, Axis::kY},
                                         {Axis::kData, Axis::kZ},
                                         Axis::kX,
                                         {Axis::kPipe, Axis::kData, Axis::kZ, Axis::kY, Axis::kX}};
  std::vector<Communicator> comms;
  for (const grid::Axes& axes : kinds) {
    comms.push_back(world.communicator(grid.group(axes, world.rank())));
  }
  Findings findings;
  std::vector<Values<float>> sums;
  std::vector<Values<double>> gathers;
  std::vector<comm::Work> works;
  sums.reserve(static_cast<std::size_t>(rounds) * comms.size());
  gathers.reserve(static_cast<std::size_t>(rounds) * comms.size());
  const auto count_of = [](int round, std::size_t k) {
    return static_cast<std::int64_t>(1 + 1234 * round * (k + 1));
  };
  std::vector<Values<double>> inputs;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t k = 0; k < comms.size(); ++k) {
      const auto own = [&](std::int64_t i) { return value_at(comms[k].rank(), i + round); };
      const std::int64_t n = count_of(round, k);
      const auto priority =
          (round + static_cast<int>(k)) % 2 == 0 ? Priority::kUrgent : Priority::kBackground;
      sums.push_back(filled<float>(n, own));
      works.push_back(comms[k].all_reduce(view(sums.back()), ReduceOp::kSum, priority));
      inputs.push_back(filled<double>(n, own));
      gathers.emplace_back(static_cast<std::size_t>(n * comms[k].size()));
      works.push_back(comms[k].all_gather(view(inputs.back()), view(gathers.back()), priority));
    }
  }
  // Out of order: from the last to the first, with every third one tested before.
  for (std::size_t i = works.size(); i-- > 0;) {
    if (i % 3 == 0) static_cast<void>(works[i].test());
    works[i].wait();
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t k = 0; k < comms.size(); ++k) {
      const std::size_t at = static_cast<std::size_t>(round) * comms.size() + k;
      const std::int64_t n = count_of(round, k);
      findings.expect_values(
          sums[at], concat("all_reduce over ", kinds[k], " round ", round),
          [&](std::int64_t i) { return reduced_at(comms[k].size(), i + round, ReduceOp::kSum); });
      findings.expect_values(
          gathers[at], concat("all_gather over ", kinds[k], " round ", round),
          [&](std::int64_t i) { return value_at(static_cast<int>(i / n), i % n + round); });
    }
  }
  findings.judge(world);
}
}  // namespace fourfold::test
