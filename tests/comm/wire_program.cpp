// Runs one operation in many sizes, dtypes and priorities, then prints "rank bytes messages": what
// the counters say that this rank has sent in all.
//   mpirun -np N wire_program OP
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string_view>
#include <vector>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/run.hpp"

namespace {

using namespace fourfold;
using comm::view;
using schedule::Op;

template <class T>
void run_op(const comm::Communicator& comm, Op op, std::int64_t n, comm::Priority priority) {
  const auto p = static_cast<std::size_t>(comm.size());
  std::vector<T> small(static_cast<std::size_t>(n));
  std::vector<T> large(static_cast<std::size_t>(n) * p);
  const comm::ReduceOp sum = comm::ReduceOp::kSum;
  const int last = comm.size() - 1;
  switch (op) {
    case Op::kAllReduce:
      return comm.all_reduce(view(small), sum, priority).wait();
    case Op::kAllGather:
      return comm.all_gather(view(small), view(large), priority).wait();
    case Op::kReduceScatter:
      return comm.reduce_scatter(view(large), view(small), sum, priority).wait();
    case Op::kBroadcast:
      return comm.broadcast(view(small), last, priority).wait();
    case Op::kReduce: {
      std::vector<T> result(small);
      return comm.reduce(view(small), view(result), 0, sum, priority).wait();
    }
    case Op::kSend:
    case Op::kRecv:
      return comm
          .transfer(
              {{view(small), (comm.rank() + 1) % comm.size()}},
              {{view(std::span(large).first(small.size())), (comm.rank() + last) % comm.size()}},
              priority)
          .wait();
    case Op::kBarrier:
      return comm.barrier().wait();
  }
}

void run(comm::World& world, std::string_view name) {
  const grid::Grid grid({.x = world.size()});
  const auto comm = world.communicator(grid.group(grid::Axis::kX, world.rank()));
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast,
                      Op::kReduce, Op::kSend, Op::kBarrier}) {
    if (name != schedule::to_string(op)) continue;
    for (const std::int64_t n : {0, 1, 101, 1009, 70001, 300007, 600011}) {
      if (n > 70001 && world.size() > 5) continue;  // one machine has to hold it all
      for (const auto priority : {comm::Priority::kUrgent, comm::Priority::kBackground}) {
        run_op<double>(comm, op, n, priority);
        run_op<float>(comm, op, n, priority);
        run_op<BFloat16>(comm, op, n, priority);
      }
    }
  }
}

}  // namespace

int main(int, char** argv) {
  return comm::mpi::run(
      [&](comm::World& world) {
        run(world, argv[1]);
        schedule::Traffic sent;
        for (const auto& [key, count] : world.counters()) sent += count.wire;
        // The barrier with which all leave is still to come.
        sent += schedule::traffic_of({}, world.size(), world.rank());
        std::printf("%d %lld %lld\n", world.rank(), static_cast<long long>(sent.bytes.value()),
                    static_cast<long long>(sent.messages));
      },
      [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
}
