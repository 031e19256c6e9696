// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/contract.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "fourfold/base/check.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {

namespace {

using comm::BFloat16;
using comm::Communicator;
using comm::DType;
using comm::Priority;
using comm::ReduceOp;
using comm::view;
using schedule::Op;

template <class T>
T from_int(std::int64_t value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return comm::to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// What member `rank` holds at `i`: small whole numbers, so that every sum of eight is exact.
std::int64_t value_at(int rank, std::int64_t i) {
  return (i * 7 + rank * 5 + (i >> 9)) % 29 - 14 * (rank % 2);
}

std::int64_t reduced_at(int ranks, std::int64_t i, ReduceOp op) {
  std::int64_t result = value_at(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t value = value_at(rank, i);
    result = op == ReduceOp::kSum ? result + value : std::max(result, value);
  }
  return result;
}

template <class T>
std::vector<T> filled(std::int64_t count, const auto& function) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = from_int<T>(function(i));
  }
  return values;
}

/// Collects the first difference of a rank, to be judged together with those of the others.
class Findings {
 public:
  template <class T>
  void expect_values(const std::vector<T>& values, const std::string& what, const auto& function) {
    for (std::size_t i = 0; i < values.size() && first_.empty(); ++i) {
      if (!(values[i] == from_int<T>(function(static_cast<std::int64_t>(i))))) {
        first_ = concat(what, ": element ", i, " of ", values.size(), " is wrong");
      }
    }
  }
  void expect(bool holds, const std::string& what) {
    if (!holds && first_.empty()) first_ = what;
  }
  void judge(comm::World& world) const { expect_on_all_ranks(world, first_.empty(), first_); }

 private:
  std::string first_;
};

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
  std::vector<T> out(static_cast<std::size_t>(n));
  comm.reduce_scatter(view(in), view(out), op, priority).wait();
  findings.expect_values(out, "reduce_scatter " + name, all_of_chunk);
  findings.expect_values(in, "input of reduce_scatter " + name, own);

  auto in_place = in;
  const auto chunk =
      std::span(in_place).subspan(static_cast<std::size_t>(r * n), static_cast<std::size_t>(n));
  comm.reduce_scatter(view(in_place), view(chunk), op, priority).wait();
  findings.expect_values(std::vector<T>(chunk.begin(), chunk.end()),
                         "reduce_scatter in place " + name, all_of_chunk);

  const int root = p / 2;
  const auto part = filled<T>(n, own);
  std::vector<T> result(r == root ? static_cast<std::size_t>(n) : 0);
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
  std::vector<T> out(static_cast<std::size_t>(n * p));
  comm.all_gather(view(in), view(out), priority).wait();
  findings.expect_values(out, "all_gather " + name, gathered);

  std::vector<T> in_place(static_cast<std::size_t>(n * p));
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
  std::vector<T> received(static_cast<std::size_t>(n));
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
    sum.wire += schedule::traffic_of(issue->collective, issue->group_size, issue->index, reach);
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
  world.record(&recorded);
  check_dtype<double>(comm, sizes, findings);
  check_dtype<float>(comm, sizes, findings);
  check_dtype<BFloat16>(comm, sizes, findings);
  check_dtype<std::int64_t>(comm, sizes, findings);
  for (int i = 0; i < 3; ++i) comm.barrier().wait();
  world.record(nullptr);
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
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<double>> gathers;
  std::vector<comm::Work> works;
  sums.reserve(static_cast<std::size_t>(rounds) * comms.size());
  gathers.reserve(static_cast<std::size_t>(rounds) * comms.size());
  const auto count_of = [](int round, std::size_t k) {
    return static_cast<std::int64_t>(1 + 1234 * round * (k + 1));
  };
  std::vector<std::vector<double>> inputs;
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

namespace {

/// Numbers whose sums round.
double rough(int rank, std::int64_t i) {
  return std::sin(static_cast<double>(i) * 0.7 + rank * 1.3) * std::pow(10.0, rank % 4);
}

/// The sum of element i of n over p ranks as docs/communication.md orders it.
template <class T>
T documented_sum(std::int64_t i, std::int64_t n, int p) {
  const schedule::Collective c{
      Op::kAllReduce, comm::kDTypeOf<T>, ReduceOp::kSum, Priority::kUrgent, n, 0};
  const auto algorithm = schedule::algorithm_of(c, p);
  if (algorithm == schedule::Algorithm::kDirect || p == 1) {
    T sum = static_cast<T>(rough(0, i));
    for (int rank = 1; rank < p; ++rank) sum += static_cast<T>(rough(rank, i));
    return sum;
  }
  int owner = 0;
  while (schedule::chunk_of(n, p, owner).end <= i) ++owner;
  T sum = static_cast<T>(rough((owner + 1) % p, i));
  for (int k = 2; k <= p; ++k) sum += static_cast<T>(rough((owner + k) % p, i));
  return sum;
}

/// The same for bf16: in float, rounded once; own part first, then the members before.
BFloat16 documented_bf16_sum(std::int64_t i, std::int64_t n, int p) {
  const auto part = [&](int rank) {
    return comm::to_float(comm::to_bfloat16(static_cast<float>(rough(rank, i))));
  };
  const schedule::Collective c{
      Op::kAllReduce, DType::kBF16, ReduceOp::kSum, Priority::kUrgent, n, 0};
  float sum = 0;
  if (schedule::algorithm_of(c, p) == schedule::Algorithm::kDirect || p == 1) {
    sum = part(0);
    for (int rank = 1; rank < p; ++rank) sum += part(rank);
  } else {
    int owner = 0;
    while (schedule::chunk_of(n, p, owner).end <= i) ++owner;
    sum = part(owner);
    for (int k = 1; k < p; ++k) sum += part((owner - k + p) % p);
  }
  return comm::to_bfloat16(sum);
}

}  // namespace

void check_order_of_sums(comm::World& world) {
  const Communicator comm = world.communicator(everyone(world));
  const int p = comm.size();
  Findings findings;
  for (const std::int64_t n : {std::int64_t{5}, std::int64_t{3001}, std::int64_t{200003}}) {
    std::vector<float> f32(static_cast<std::size_t>(n));
    std::vector<double> f64(static_cast<std::size_t>(n));
    std::vector<BFloat16> bf16(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      f64[at] = rough(comm.rank(), i);
      f32[at] = static_cast<float>(f64[at]);
      bf16[at] = comm::to_bfloat16(f32[at]);
    }
    comm.all_reduce(view(f32)).wait();
    comm.all_reduce(view(f64)).wait();
    comm.all_reduce(view(bf16)).wait();
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      findings.expect(f32[at] == documented_sum<float>(i, n, p), concat("f32 sum at ", i, "/", n));
      findings.expect(f64[at] == documented_sum<double>(i, n, p), concat("f64 sum at ", i, "/", n));
      findings.expect(bf16[at] == documented_bf16_sum(i, n, p), concat("bf16 sum at ", i, "/", n));
    }
  }
  findings.judge(world);
}

void check_lists(comm::World& world) {
  const Communicator comm = world.communicator(everyone(world));
  const int p = comm.size();
  const int r = comm.rank();
  const std::vector<std::int64_t> sizes = {3, 0, 700, 1, 40000};
  const auto own = [&](std::int64_t i) { return value_at(r, i); };
  Findings findings;
  std::vector<std::vector<float>> reduced, in, gathered, wide, scattered, sent, summed;
  for (const std::int64_t n : sizes) {
    reduced.push_back(filled<float>(n, own));
    in.push_back(filled<float>(n, own));
    gathered.emplace_back(static_cast<std::size_t>(n * p));
    wide.push_back(filled<float>(n * p, own));
    scattered.emplace_back(static_cast<std::size_t>(n));
    sent.push_back(filled<float>(n, own));
    summed.emplace_back(r == 0 ? static_cast<std::size_t>(n) : 0);
  }
  std::vector<comm::View> reduce_list, sent_list;
  std::vector<comm::InOut> gather_list, scatter_list, sum_list;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    reduce_list.push_back(view(reduced[k]));
    sent_list.push_back(view(sent[k]));
    gather_list.push_back({view(in[k]), view(gathered[k])});
    scatter_list.push_back({view(wide[k]), view(scattered[k])});
    sum_list.push_back({view(in[k]), view(summed[k])});
  }
  world.reset_counters();
  std::vector<comm::Work> works;
  works.push_back(comm.all_reduce(reduce_list));
  works.push_back(comm.all_gather(gather_list, Priority::kBackground));
  works.push_back(comm.reduce_scatter(scatter_list));
  works.push_back(comm.broadcast(sent_list, 0));
  works.push_back(comm.reduce(sum_list, 0, ReduceOp::kMax));
  for (comm::Work& work : works) work.wait();
  for (const auto& [key, count] : world.counters()) {
    findings.expect(count.calls == 1, "a list must be one operation");
  }
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::int64_t n = sizes[k];
    findings.expect_values(reduced[k], "all_reduce of a list",
                           [&](std::int64_t i) { return reduced_at(p, i, ReduceOp::kSum); });
    findings.expect_values(gathered[k], "all_gather of a list", [&](std::int64_t i) {
      return value_at(static_cast<int>(i / n), i % n);
    });
    findings.expect_values(scattered[k], "reduce_scatter of a list", [&](std::int64_t i) {
      return reduced_at(p, i + r * n, ReduceOp::kSum);
    });
    findings.expect_values(sent[k], "broadcast of a list",
                           [&](std::int64_t i) { return value_at(0, i); });
    findings.expect_values(summed[k], "reduce of a list",
                           [&](std::int64_t i) { return reduced_at(p, i, ReduceOp::kMax); });
  }
  findings.judge(world);
}

void check_pairs(comm::World& world) {
  const Communicator comm = world.communicator(everyone(world));
  const int p = comm.size();
  const int r = comm.rank();
  Findings findings;
  constexpr int kMessages = 5;
  const std::int64_t n = 90001;
  std::vector<Communicator::Sending> sends;
  std::vector<Communicator::Receiving> receives;
  std::vector<std::vector<float>> out(static_cast<std::size_t>(p * kMessages));
  auto in = out;
  for (int k = 0; k < kMessages; ++k) {
    for (int peer = 0; peer < p; ++peer) {
      if (peer == r) continue;
      const auto at = static_cast<std::size_t>(peer * kMessages + k);
      out[at] = filled<float>(n, [&](std::int64_t i) { return value_at(r, i + k + peer); });
      in[at].resize(static_cast<std::size_t>(n));
      sends.push_back({view(out[at]), peer});
      receives.push_back({view(in[at]), peer});
    }
  }
  // A send issued before the receive that its peer waits for, in both directions at once.
  auto transfers = comm.transfer(sends, receives);
  comm.barrier().wait();
  transfers.wait();
  for (int k = 0; k < kMessages; ++k) {
    for (int peer = 0; peer < p; ++peer) {
      if (peer == r) continue;
      findings.expect_values(in[static_cast<std::size_t>(peer * kMessages + k)],
                             concat("message ", k, " from ", peer),
                             [&](std::int64_t i) { return value_at(peer, i + k + r); });
    }
  }
  findings.judge(world);
}

}  // namespace fourfold::test
