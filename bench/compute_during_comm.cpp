// What a compute thread loses while an all_reduce is in flight over a slow link, two ranks:
//   scripts/testbed.sh --hosts 2 --slots 1 --mbit 400 -- build/release/bench/compute_during_comm
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/grid/grid.hpp"

namespace {

using namespace fourfold;

constexpr int kSize = 384;
constexpr std::int64_t kElements = 1 << 20;  // 4 MiB
constexpr int kRounds = 21;

class Product {
 public:
  void run(int times) {
    for (int i = 0; i < times; ++i) at::mm_out(c_, a_, b_);
  }

 private:
  at::Tensor a_ = at::ones({kSize, kSize});
  at::Tensor b_ = at::ones({kSize, kSize});
  at::Tensor c_ = at::empty({kSize, kSize});
};

template <class Function>
double seconds(const Function& function) {
  const Seconds start = now();
  function();
  return (now() - start).value();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

}  // namespace

int main() {
  auto world = comm::mpi::open();
  const grid::Grid grid({.x = world.size()});
  const auto comm = world.communicator(grid.group(grid::Axis::kX, world.rank()));
  const c10::InferenceMode no_graph;
  Product product;
  std::vector<float> data(kElements, 1.F);
  const auto longest = [&](double value) {
    std::vector<double> one = {value};
    comm.all_reduce(comm::view(one), comm::ReduceOp::kMax).wait();
    return one[0];
  };
  const auto reduce = [&](comm::Priority priority) {
    return comm.all_reduce(comm::view(data), comm::ReduceOp::kSum, priority);
  };

  for (const auto priority : {comm::Priority::kUrgent, comm::Priority::kBackground}) {
    reduce(priority).wait();
    const double comm_alone = longest(seconds([&] { reduce(priority).wait(); }));
    // As many products as take as long as the all_reduce.
    product.run(20);
    const double one = longest(seconds([&] { product.run(50); })) / 50;
    const int times = static_cast<int>(comm_alone / one);
    // Both in every round, one right after the other: a shared machine drifts, the ratio does not.
    std::vector<double> alone, during, kept, whole;
    for (int round = 0; round < kRounds; ++round) {
      comm.barrier().wait();
      alone.push_back(longest(seconds([&] { product.run(times); })));
      comm.barrier().wait();
      double compute = 0;
      const double total = seconds([&] {
        auto work = reduce(priority);
        compute = seconds([&] { product.run(times); });
        work.wait();
      });
      during.push_back(longest(compute));
      whole.push_back(longest(total));
      kept.push_back(100 * alone.back() / during.back());
    }
    if (world.rank() == 0) {
      std::printf(
          "%-10s  medians of %d: all_reduce alone %.3f s, compute alone %.3f s, compute during it "
          "%.3f s, both %.3f s; compute keeps %.1f%% of its speed\n",
          std::string(to_string(priority)).c_str(), kRounds, comm_alone, median(alone),
          median(during), median(whole), median(kept));
    }
  }
  world.leave();
}
