// The contract: order of sums, lists and pairs.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include "tests/comm/contract.hpp"
#include "tests/comm/contract_values.hpp"

namespace fourfold::test {

namespace {

using comm::Communicator;
using comm::DType;
using comm::Priority;
using comm::ReduceOp;
using schedule::Algorithm;
using schedule::Op;

/// Numbers whose sums round.
double rough(int rank, std::int64_t i) {
  return std::sin(static_cast<double>(i) * 0.7 + rank * 1.3) * std::pow(10.0, rank % 4);
}

/// What member `rank` contributes to element i, as sums of T have it.
template <class T>
auto part_of(int rank, std::int64_t i) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_float(to_bfloat16(static_cast<float>(rough(rank, i))));
  } else {
    return static_cast<T>(rough(rank, i));
  }
}

/// The parts of element i of a sum over p ranks, added as docs/communication.md orders it.
template <class T>
auto ordered_sum(Algorithm algorithm, std::int64_t i, std::int64_t n, int p) {
  std::vector<decltype(part_of<T>(0, i))> parts;
  for (int rank = 0; rank < p; ++rank) parts.push_back(part_of<T>(rank, i));
  const auto at = [&](int rank) -> auto& {
    return parts[static_cast<std::size_t>(rank % p)];
  };
  if (algorithm == Algorithm::kDirect || algorithm == Algorithm::kNone) {
    for (int rank = 1; rank < p; ++rank) at(0) += at(rank);
    return at(0);
  }
  if (algorithm == Algorithm::kDoubling) {
    const int core = schedule::doubling_place(p, 0).core;
    for (int rank = 0; rank + core < p; ++rank) at(rank) += at(rank + core);
    for (int bit = 1; bit < core; bit *= 2) {
      for (int rank = 0; rank < core; rank += 2 * bit) at(rank) += at(rank + bit);
    }
    return at(0);
  }
  int owner = 0;
  while (schedule::chunk_of(n, p, owner).end <= i) ++owner;
  if (algorithm == Algorithm::kCirculant) {
    // The member `back` before the owner adds what comes from `distance` before itself.
    for (const auto& round : schedule::circulant_rounds(p)) {
      for (int back = 0; back < round.blocks; ++back) {
        at(p + owner - back) += at(2 * p + owner - back - round.distance);
      }
    }
    return at(owner);
  }
  const bool ring = algorithm == Algorithm::kRing;
  auto sum = ring ? at(owner + 1) : at(owner);
  for (int k = ring ? 2 : 1; k < (ring ? p + 1 : p); ++k) sum += at(owner + (ring ? k : p - k));
  return sum;
}

/// The same, rounded once if it is of bf16.
template <class T>
T documented_sum(Op op, std::int64_t i, std::int64_t n, int p) {
  const schedule::Collective c{op, comm::kDTypeOf<T>, ReduceOp::kSum, Priority::kUrgent, n, 0};
  const auto sum = ordered_sum<T>(schedule::algorithm_of(c, p), i, n, p);
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(sum);
  } else {
    return sum;
  }
}

/// `n` elements a rank holds of the scattered sum.
template <class T>
void check_sums(const Communicator& comm, std::int64_t n, Findings& findings) {
  const int p = comm.size();
  const auto rough_part = [&](std::int64_t count) {
    Values<T> values;
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, BFloat16>) {
        values.push_back(to_bfloat16(part_of<T>(comm.rank(), i)));
      } else {
        values.push_back(part_of<T>(comm.rank(), i));
      }
    }
    return values;
  };
  Values<T> all = rough_part(n);
  comm.all_reduce(view(all)).wait();
  const Values<T> in = rough_part(n * p);
  Values<T> own(static_cast<std::size_t>(n));
  comm.reduce_scatter(view(in), view(own)).wait();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string where = concat(comm::kDTypeOf<T>, " at ", i, " of ", n);
    findings.expect(all[at] == documented_sum<T>(Op::kAllReduce, i, n, p), "all_reduce " + where);
    const std::int64_t j = i + comm.rank() * n;
    findings.expect(own[at] == documented_sum<T>(Op::kReduceScatter, j, n * p, p),
                    "reduce_scatter " + where);
  }
}

}  // namespace

void check_order_of_sums(comm::World& world, std::int64_t most) {
  const Communicator comm = world.communicator(everyone(world));
  Findings findings;
  for (const std::int64_t n : {5, 301, 3001, 20011}) {
    if (n > most) continue;
    check_sums<float>(comm, n, findings);
    check_sums<double>(comm, n, findings);
    check_sums<BFloat16>(comm, n, findings);
  }
  findings.judge(world);
}

namespace {

void check_list(comm::World& world, const Communicator& comm,
                const std::vector<std::int64_t>& sizes) {
  const int p = comm.size();
  const int r = comm.rank();
  const auto own = [&](std::int64_t i) { return value_at(r, i); };
  Findings findings;
  std::vector<Values<float>> reduced, in, gathered, wide, scattered, sent, summed;
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

}  // namespace

void check_lists(comm::World& world) {
  const Communicator comm = world.communicator(everyone(world));
  check_list(world, comm, {3, 0, 700, 1, 40000});
  check_list(world, comm, {3, 0, 17, 1});
  check_list(world, comm, {0, 0});
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
  std::vector<Values<float>> out(static_cast<std::size_t>(p * kMessages));
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
