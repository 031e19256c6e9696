// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/communicator.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/core.hpp"
#include "fourfold/comm/layer_scope.hpp"

namespace fourfold::comm {

using schedule::Collective;
using schedule::Op;

// --- Work

namespace {

void tell_wait_begins(const Core& core, std::int64_t number) {
  core.observers.tell([&](Observer& observer) { observer.awaited(number); });
}

void tell_wait_ends(const Core& core, const Issued& issued, const std::optional<Blocked>& blocked) {
  core.observers.tell([&](Observer& observer) { observer.waited(observed(issued), blocked); });
}

}  // namespace

void Work::wait() {
  // Every part is waited for, in order. The first failure fails the engine and so all later parts.
  for (Part& part : std::exchange(parts_, {})) {
    tell_wait_begins(*core_, part.number);
    if (part.issued) tell_wait_ends(*core_, *part.issued, core_->engine->wait(part.issued));
  }
}

bool Work::test() {
  for (const Part& part : parts_) {
    if (part.issued && !core_->engine->test(part.issued)) return false;
  }
  return true;
}

Work& Work::operator=(Work&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(parts_, other.parts_);
  std::swap(unwinding_, other.unwinding_);
  return *this;
}

Work::~Work() {
  for (const Part& part : parts_) {
    try {
      const bool unwinding = std::uncaught_exceptions() > unwinding_;
      if (!unwinding) tell_wait_begins(*core_, part.number);
      if (!part.issued) continue;
      std::optional<Blocked> blocked;
      if (!part.issued->done) {
        if (unwinding) {
          core_->engine->fail("the rank gave up: an exception left an operation unfinished");
        } else {
          blocked = core_->engine->wait(part.issued);
        }
      }
      // If the world is gone, so is the lane of the operation.
      if (!unwinding && core_->engine) tell_wait_ends(*core_, *part.issued, blocked);
    } catch (const std::exception&) {
      // The engine has failed. The next call that can throw will report it.
    }
  }
}

// --- Communicator

namespace {

InOut in_place(View view) {
  return {view, std::move(view)};
}
Buffers in_place(std::vector<View> list) {
  Buffers both;
  for (View& view : list) both.push_back(in_place(std::move(view)));
  return both;
}

bool is_pair(Op op) {
  return op == Op::kSend || op == Op::kRecv;
}

}  // namespace

const grid::Group& Communicator::group() const {
  return lane_->group;
}
int Communicator::lane() const {
  return lane_->id;
}

Work Communicator::all_reduce(View data, ReduceOp op, Priority priority) const {
  return issue({Op::kAllReduce, DType::kF32, op, priority, 0, 0}, in_place(std::move(data)));
}
Work Communicator::all_reduce(std::vector<View> list, ReduceOp op, Priority priority) const {
  return issue({Op::kAllReduce, DType::kF32, op, priority, 0, 0}, in_place(std::move(list)));
}

Work Communicator::all_gather(ConstView in, View out, Priority priority) const {
  return issue({Op::kAllGather, DType::kF32, ReduceOp::kSum, priority, 0, 0},
               InOut{std::move(in), std::move(out)});
}
Work Communicator::all_gather(std::vector<InOut> list, Priority priority) const {
  return issue({Op::kAllGather, DType::kF32, ReduceOp::kSum, priority, 0, 0}, std::move(list));
}

Work Communicator::reduce_scatter(ConstView in, View out, ReduceOp op, Priority priority) const {
  return issue({Op::kReduceScatter, DType::kF32, op, priority, 0, 0},
               InOut{std::move(in), std::move(out)});
}
Work Communicator::reduce_scatter(std::vector<InOut> list, ReduceOp op, Priority priority) const {
  return issue({Op::kReduceScatter, DType::kF32, op, priority, 0, 0}, std::move(list));
}

Work Communicator::broadcast(View data, int root, Priority priority) const {
  return issue({Op::kBroadcast, DType::kF32, ReduceOp::kSum, priority, 0, root},
               in_place(std::move(data)));
}
Work Communicator::broadcast(std::vector<View> list, int root, Priority priority) const {
  return issue({Op::kBroadcast, DType::kF32, ReduceOp::kSum, priority, 0, root},
               in_place(std::move(list)));
}

Work Communicator::reduce(ConstView in, View out, int root, ReduceOp op, Priority priority) const {
  return issue({Op::kReduce, DType::kF32, op, priority, 0, root},
               InOut{std::move(in), std::move(out)});
}
Work Communicator::reduce(std::vector<InOut> list, int root, ReduceOp op, Priority priority) const {
  return issue({Op::kReduce, DType::kF32, op, priority, 0, root}, std::move(list));
}

Work Communicator::send(ConstView data, int peer, Priority priority) const {
  return transfer({{std::move(data), peer}}, {}, priority);
}
Work Communicator::recv(View data, int peer, Priority priority) const {
  return transfer({}, {{std::move(data), peer}}, priority);
}

Work Communicator::transfer(std::vector<Sending> sends, std::vector<Receiving> receives,
                            Priority priority) const {
  std::vector<std::pair<Collective, InOut>> all;
  for (Receiving& item : receives) {
    all.push_back(
        {{Op::kRecv, item.data.dtype, ReduceOp::kSum, priority, item.data.count, item.peer},
         {{}, std::move(item.data)}});
  }
  for (Sending& item : sends) {
    all.push_back(
        {{Op::kSend, item.data.dtype, ReduceOp::kSum, priority, item.data.count, item.peer},
         {std::move(item.data), {}}});
  }
  // All operations are checked before the first one starts.
  for (const auto& [collective, buffers] : all) check(collective, buffers);
  Work work = make_work();
  for (auto& [collective, buffers] : all) {
    work.parts_.push_back(start(collective, std::move(buffers)));
  }
  return work;
}

Work Communicator::make_work() const {
  Work work;
  work.core_ = core_;
  work.unwinding_ = std::uncaught_exceptions();
  return work;
}

Work Communicator::barrier() const {
  return issue(Collective{}, {});
}

Work Communicator::issue(Collective collective, Buffers&& list) const {
  if (!list.empty()) collective.dtype = list.front().in.dtype;
  for (const InOut& item : list) {
    collective.count += collective.op == Op::kAllGather ? item.out.count : item.in.count;
  }
  check(collective, list);
  Work work = make_work();
  work.parts_.push_back(start(collective, std::move(list)));
  return work;
}

Work::Part Communicator::start(const Collective& collective, Buffers&& list) const {
  Work::Part part;
  part.number = core_->operations++;
  const Observed operation{part.number, collective, group(), lane_->id, lane_->reach};
  core_->observers.tell(
      [&](Observer& observer) { observer.issued(operation, LayerScope::current()); });
  if (core_->engine && size() > 1) {
    part.issued = core_->engine->submit(*lane_, collective, std::move(list), part.number);
    return part;
  }
  if (core_->engine) {
    for (const InOut& item : list) {
      Collective one = collective;
      one.count = item.in.count;
      run_alone(one, item);
    }
  }
  core_->observers.ended(operation, {traffic_of(collective, size(), rank(), lane_->reach), {}, {}});
  return part;
}

void Communicator::check(const Collective& c, const Buffers& list) const {
  const bool rooted = c.op == Op::kBroadcast || c.op == Op::kReduce || is_pair(c.op);
  FOURFOLD_CHECK(!rooted || (c.root >= 0 && c.root < size()), c, ": group ", group(),
                 " has no member ", c.root);
  FOURFOLD_CHECK(!is_pair(c.op) || c.root != rank(), c, ": a rank cannot be its own peer");
  FOURFOLD_CHECK(c.op == Op::kBarrier || !list.empty(), c.op, ": the list of tensors is empty");
  for (const InOut& item : list) {
    if (is_pair(c.op)) continue;
    FOURFOLD_CHECK(item.in.dtype == c.dtype, c, ": the tensors of a list have one dtype");
    if (c.op == Op::kReduce && rank() != c.root) continue;
    FOURFOLD_CHECK(item.out.dtype == c.dtype, c, ": input and output have one dtype");
    const std::int64_t in = item.in.count * (c.op == Op::kAllGather ? size() : 1);
    const std::int64_t out = item.out.count * (c.op == Op::kReduceScatter ? size() : 1);
    FOURFOLD_CHECK(in == out, c, ": ", item.in.count, " elements in and ", item.out.count,
                   " out do not fit a group of ", size());
  }
}

}  // namespace fourfold::comm
