// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/nccl/nccl.hpp"

#include <optional>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/nccl/communicators.hpp"
#include "fourfold/comm/nccl/streams.hpp"
#include "fourfold/comm/nccl/sums.hpp"

namespace fourfold::comm::nccl {

namespace {

using schedule::Collective;
using schedule::DType;
using schedule::Op;

int type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kFloat64;
    case DType::kF32:
      return kFloat32;
    case DType::kBF16:
      return kBFloat16;
    case DType::kI64:
      return kInt64;
  }
  throw InvariantError("no such type");
}

struct Marked final : Device::Stamp {
  explicit Marked(EventPtr at) : event(std::move(at)) {}
  EventPtr event;
};

struct Operation final : Device::Launched {
  EventPtr began;
  EventPtr ended;
};

const Operation& real(const Device::Launched& launched) {
  return static_cast<const Operation&>(launched);
}
const Marked& real(const Device::Stamp& stamp) {
  return static_cast<const Marked&>(stamp);
}

bool is_pair(const Collective& c) {
  return c.op == Op::kSend || c.op == Op::kRecv;
}

/// Scratch memory from CUDA's allocator for streams.
ScratchMemory memory_of_streams(const Api& api) {
  return {.take =
              [&api](std::size_t bytes, Stream stream) {
                void* memory = nullptr;
                check_cuda(api, api.allocate(&memory, bytes, stream), "allocate memory");
                return memory;
              },
          .give_back = [&api](void* memory,
                              Stream stream) { static_cast<void>(api.release(memory, stream)); }};
}

class NcclDevice final : public Device {
 public:
  NcclDevice(const Api& api, const Options& options) : api_(&api), options_(options) {
    if (!options_.scratch.take) options_.scratch = memory_of_streams(api);
  }
  ~NcclDevice() override {
    // The communicators go first: they may still run on the streams.
    if (!communicators_) return;
    if (!host_->failed()) streams_->drain();
    communicators_->close();
  }

  void open(DeviceHost& host) override {
    host_ = &host;
    use();
    communicators_ = std::make_shared<Communicators>(*api_, host, options_);
    streams_.emplace(*api_, options_.compute_stream);
    streams_->finish();
  }

  void add_lane(const Lane& lane) override { communicators_->add_lane(lane); }
  void invited(const Invitation& invitation) override { communicators_->invited(invitation); }

  std::vector<LaunchedPtr> launch(const Lane& lane, const std::vector<Launch>& launches) override {
    use();
    std::vector<Route> routes;
    for (const Launch& each : launches) routes.push_back(route_of(lane, each.collective));
    std::vector<std::unique_ptr<Operation>> operations;
    // The streams wait for what compute has been given so far.
    const EventPtr computed = streams_->record(streams_->compute());
    for (const Route& route : routes) {
      streams_->wait(route.stream, computed);
      operations.push_back(std::make_unique<Operation>());
      operations.back()->began = streams_->record(route.stream);
    }
    run(launches, routes);
    std::vector<LaunchedPtr> launched;
    for (std::size_t i = 0; i < routes.size(); ++i) {
      operations[i]->ended = streams_->record(routes[i].stream);
      launched.push_back(std::move(operations[i]));
    }
    return launched;
  }

  void run_alone(const Collective& c, const InOut& buffers) override {
    use();
    // Operations that only write what they read have nothing to do.
    const bool moves = c.op == Op::kAllGather || c.op == Op::kReduceScatter || c.op == Op::kReduce;
    if (!moves || buffers.in.bytes() == 0 || buffers.in.data == buffers.out.data) return;
    check_cuda(*api_,
               api_->copy(buffers.out.data, buffers.in.data,
                          static_cast<std::size_t>(buffers.in.bytes()), streams_->compute()),
               "copy");
  }

  void wait(const Launched& launched) override {
    streams_->wait(streams_->compute(), real(launched).ended);
  }
  bool began(const Launched& launched) override {
    use();
    return streams_->passed(real(launched).began);
  }
  bool ended(const Launched& launched) override {
    use();
    return streams_->passed(real(launched).ended);
  }
  Times times_of(const Launched& launched) override {
    use();
    return {streams_->time_of(real(launched).began), streams_->time_of(real(launched).ended)};
  }

  StampPtr stamp() override {
    return std::make_unique<Marked>(streams_->record(streams_->compute()));
  }
  bool passed(const Stamp& stamp) override { return streams_->passed(real(stamp).event); }
  Seconds time_of(const Stamp& stamp) override { return streams_->time_of(real(stamp).event); }

  void finish() override { streams_->finish(); }
  void keep_time() override {
    use();
    streams_->keep_time();
  }
  void release_communicators() override {
    use();
    streams_->drain();
    communicators_->release();
    streams_->forget_pairs();
  }
  std::string error() override {
    use();
    return communicators_->error();
  }

  void abort() override {
    // An error is none here: there is nothing that could be done.
    static_cast<void>(api_->set_device(options_.device));
    communicators_->abort();
    streams_->drain();
  }

 private:
  /// CUDA remembers for each thread which device it uses. What any thread may call begins with
  /// this: on another device even a question would begin with taking memory there.
  void use() const { check_cuda(*api_, api_->set_device(options_.device), "choose the device"); }

  Route route_of(const Lane& lane, const Collective& c) {
    const grid::Group& group = lane.group;
    Route route{nullptr, nullptr, group.size(), group.index};
    if (is_pair(c)) {
      const int from = c.op == Op::kSend ? group.index : c.root;
      const int to = c.op == Op::kSend ? c.root : group.index;
      route.stream = streams_->of_pair(lane.id, from, to);
      if (c.count > 0) route.comm = communicators_->of_pair(lane, from, to);
    } else {
      route.stream = streams_->of_purpose(lane.purpose);
      if (c.count > 0) route.comm = communicators_->of_group(lane);
    }
    return route;
  }

  bool is_own_sum(const Collective& c) const {
    const bool reduces =
        c.op == Op::kAllReduce || c.op == Op::kReduceScatter || c.op == Op::kReduce;
    return reduces && c.dtype == DType::kBF16 && c.reduce == ReduceOp::kSum &&
           options_.bf16_sums == Bf16Sums::kRoundedOnce;
  }

  /// Several operations start together: no kernel of one waits for one of another.
  void run(const std::vector<Launch>& launches, const std::vector<Route>& routes) {
    const Grouped grouped = [&](const std::function<void()>& calls) {
      communicators_->guarded([&] {
        check_nccl(*api_, api_->group_start(), "begin a group");
        calls();
        check_nccl(*api_, api_->group_end(), "launch a group");
      });
      // A call may wait for other members; then this is an operation like others, with a deadline.
      for (const Route& route : routes) {
        if (route.comm == nullptr) continue;
        host_->wait_until([&] { return communicators_->settled(route.comm); });
      }
    };
    const Collective& first = launches.front().collective;
    if (is_own_sum(first)) {
      sum_rounded_once(*api_, options_.scratch, first, *launches.front().buffers, routes.front(),
                       grouped);
      return;
    }
    grouped([&] {
      for (std::size_t i = 0; i < launches.size(); ++i) {
        const Collective& c = launches[i].collective;
        for (const InOut& item : *launches[i].buffers) {
          const bool empty = (c.op == Op::kRecv ? item.out.count : item.in.count) == 0;
          if (!empty) check_nccl(*api_, call(c, item, routes[i]), "communicate");
        }
      }
    });
  }

  int call(const Collective& c, const InOut& item, const Route& to) const {
    const int type = type_of(c.dtype);
    const int op = c.reduce == ReduceOp::kSum ? kSum : kMax;
    const auto in = static_cast<std::size_t>(item.in.count);
    const auto out = static_cast<std::size_t>(item.out.count);
    const void* from = item.in.data;
    void* into = item.out.data;
    switch (c.op) {
      case Op::kAllReduce:
        return api_->all_reduce(from, into, in, type, op, to.comm, to.stream);
      case Op::kAllGather:
        return api_->all_gather(from, into, in, type, to.comm, to.stream);
      case Op::kReduceScatter:
        return api_->reduce_scatter(from, into, out, type, op, to.comm, to.stream);
      case Op::kBroadcast:
        return api_->broadcast(from, into, in, type, c.root, to.comm, to.stream);
      case Op::kReduce:
        return api_->reduce(from, into, in, type, op, c.root, to.comm, to.stream);
      // A pair has a communicator of its own, in which the sender broadcasts. NCCL connects the
      // members for that when it makes the communicator, but connects them for its own sends and
      // receives when both call them first: there ranks could wait for each other in a circle.
      case Op::kSend:
        return api_->broadcast(from, const_cast<void*>(from), in, type, 0, to.comm, to.stream);
      case Op::kRecv:
        return api_->broadcast(into, into, out, type, 0, to.comm, to.stream);
      case Op::kBarrier:
        break;
    }
    throw InvariantError("no such operation on a device");
  }

  const Api* api_;
  Options options_;
  DeviceHost* host_ = nullptr;
  std::optional<Streams> streams_;
  std::shared_ptr<Communicators> communicators_;
};

}  // namespace

std::unique_ptr<Device> open(const Api& api, const Options& options) {
  return std::make_unique<NcclDevice>(api, options);
}

}  // namespace fourfold::comm::nccl
