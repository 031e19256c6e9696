// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/communicator.hpp"

#include <algorithm>
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

/// Where the operation is one of the device, the compute stream waits, and the device reports the
/// end of the wait when it knows the times.
void wait_for(const Core& core, const IssuedPtr& issued) {
  if (issued->memory == Memory::kDevice) {
    core.device->wait(issued);
  } else {
    tell_wait_ends(core, *issued, core.engine->wait(issued));
  }
}

void give_up(const Core& core) {
  core.engine->fail("the rank gave up: an exception left an operation unfinished");
  // The buffers of operations under way are about to disappear.
  if (core.device) core.device->abort();
}

}  // namespace

void Work::wait() {
  // Every part is waited for, in order. The first failure fails the engine and so all later parts.
  for (Part& part : std::exchange(parts_, {})) {
    tell_wait_begins(*core_, part.number);
    if (part.issued) wait_for(*core_, part.issued);
  }
}

bool Work::test() {
  for (const Part& part : parts_) {
    if (!part.issued) continue;
    const bool done = part.issued->memory == Memory::kDevice ? core_->device->test(part.issued)
                                                             : core_->engine->test(part.issued);
    if (!done) return false;
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
      // If the world is gone, so is the lane of the operation.
      if (!part.issued || !core_->engine) continue;
      if (unwinding) {
        if (!part.issued->done) give_up(*core_);
      } else {
        wait_for(*core_, part.issued);
      }
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

/// Where the buffers of a tensor of an operation lie. At the root alone a reduce has an output.
Memory memory_of(Op op, const InOut& item) {
  return op == Op::kRecv ? item.out.memory : item.in.memory;
}
Memory memory_of(Op op, const Buffers& list) {
  return list.empty() ? Memory::kHost : memory_of(op, list.front());
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
  const auto on_device = [](const auto& item) {
    return memory_of(item.first.op, item.second) == Memory::kDevice;
  };
  const bool any_on_device = std::ranges::any_of(all, on_device);
  FOURFOLD_CHECK(!any_on_device || std::ranges::all_of(all, on_device),
                 "the tensors of a transfer lie in one kind of memory");
  Work work = make_work();
  if (any_on_device && core_->engine) {
    std::vector<DeviceEngine::Submission> submissions;
    for (auto& [collective, buffers] : all) {
      submissions.push_back({collective, std::move(buffers), announce(collective)});
    }
    for (IssuedPtr& issued : core_->device->submit(*lane_, std::move(submissions))) {
      const std::int64_t number = issued->of_rank;
      work.parts_.push_back({std::move(issued), number});
    }
    return work;
  }
  for (auto& [collective, buffers] : all) {
    work.parts_.push_back(start(collective, std::move(buffers)));
  }
  return work;
}

/// Tells observers of a new operation. Returns its number.
std::int64_t Communicator::announce(const Collective& collective) const {
  const std::int64_t number = core_->operations++;
  const Observed operation{number, collective, group(), lane_->id, lane_->reach};
  core_->observers.tell(
      [&](Observer& observer) { observer.issued(operation, LayerScope::current()); });
  return number;
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
  part.number = announce(collective);
  const bool on_device = memory_of(collective.op, list) == Memory::kDevice;
  if (core_->engine && size() > 1) {
    if (on_device) {
      std::vector<DeviceEngine::Submission> one;
      one.push_back({collective, std::move(list), part.number});
      part.issued = core_->device->submit(*lane_, std::move(one)).front();
    } else {
      part.issued = core_->engine->submit(*lane_, collective, std::move(list), part.number);
    }
    return part;
  }
  if (core_->engine) {
    for (const InOut& item : list) {
      Collective one = collective;
      one.count = item.in.count;
      on_device ? core_->device->run_alone(one, item) : run_alone(one, item);
    }
  }
  const schedule::Traffic sent = on_device ? schedule::traffic_on_device(collective, size(), rank())
                                           : traffic_of(collective, size(), rank(), lane_->reach);
  core_->observers.ended({part.number, collective, group(), lane_->id, lane_->reach},
                         {sent, {}, {}});
  return part;
}

void Communicator::check(const Collective& c, const Buffers& list) const {
  const bool rooted = c.op == Op::kBroadcast || c.op == Op::kReduce || is_pair(c.op);
  FOURFOLD_CHECK(!rooted || (c.root >= 0 && c.root < size()), c, ": group ", group(),
                 " has no member ", c.root);
  FOURFOLD_CHECK(!is_pair(c.op) || c.root != rank(), c, ": a rank cannot be its own peer");
  FOURFOLD_CHECK(c.op == Op::kBarrier || !list.empty(), c.op, ": the list of tensors is empty");
  const Memory memory = memory_of(c.op, list);
  FOURFOLD_CHECK(memory == Memory::kHost || !core_->engine || core_->device, c,
                 ": a buffer lies in the memory of a device, and the world has none");
  for (const InOut& item : list) {
    FOURFOLD_CHECK(memory_of(c.op, item) == memory, c,
                   ": all buffers lie in the same kind of memory");
    if (is_pair(c.op)) continue;
    FOURFOLD_CHECK(item.in.dtype == c.dtype, c, ": the tensors of a list have one dtype");
    if (c.op == Op::kReduce && rank() != c.root) continue;
    FOURFOLD_CHECK(item.out.dtype == c.dtype, c, ": input and output have one dtype");
    FOURFOLD_CHECK(item.out.memory == memory, c, ": input and output lie in one kind of memory");
    const std::int64_t in = item.in.count * (c.op == Op::kAllGather ? size() : 1);
    const std::int64_t out = item.out.count * (c.op == Op::kReduceScatter ? size() : 1);
    FOURFOLD_CHECK(in == out, c, ": ", item.in.count, " elements in and ", item.out.count,
                   " out do not fit a group of ", size());
  }
}

}  // namespace fourfold::comm
