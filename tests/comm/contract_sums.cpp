// The contract: order of sums, lists and pairs.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/comm/contract.hpp"
#include "tests/comm/contract_values.hpp"

namespace fourfold::test {

namespace {

using comm::BFloat16;
using comm::Communicator;
using comm::DType;
using comm::Priority;
using comm::ReduceOp;
using comm::view;
using schedule::Op;

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
