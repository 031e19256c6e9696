// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/world.hpp"

#include <algorithm>
#include <exception>
#include <numeric>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/core.hpp"
#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/comm/phase_scope.hpp"

namespace fourfold::comm {

LongWork::LongWork(std::shared_ptr<Core> core, const std::string& what) : core_(std::move(core)) {
  if (core_->engine) core_->engine->begin_long_work(what);
  core_->observers.tell([&](Observer& observer) { observer.work_began(what); });
}
LongWork::~LongWork() {
  if (!core_) return;
  if (core_->engine) core_->engine->end_long_work();
  core_->observers.tell([](Observer& observer) { observer.work_ended(); });
}

Observation::Observation(std::shared_ptr<Core> core, Observer& observer)
    : core_(std::move(core)), observer_(&observer) {
  core_->observers.add(observer);
}

void Observation::stop() {
  if (core_ == nullptr) return;
  core_->observers.remove(*observer_);
  core_.reset();
}

World::World(std::unique_ptr<Transport> transport, const Options& options)
    : core_(std::make_shared<Core>()), unwinding_(std::uncaught_exceptions()) {
  core_->rank = transport->rank();
  core_->size = transport->size();
  core_->engine = std::make_unique<Engine>(std::move(transport), options, core_->observers);
  begin();
}

World::World(int rank, int size, int ranks_per_host)
    : core_(std::make_shared<Core>()), unwinding_(std::uncaught_exceptions()) {
  FOURFOLD_CHECK(rank >= 0 && rank < size && ranks_per_host >= 0);
  core_->rank = rank;
  core_->size = size;
  core_->ranks_per_host = ranks_per_host > 0 ? ranks_per_host : size;
  begin();
}

void World::begin() {
  core_->observers.add(core_->counters);
  grid::Group everyone;
  everyone.axes = {grid::Axis::kPipe, grid::Axis::kData, grid::Axis::kZ, grid::Axis::kY,
                   grid::Axis::kX};
  everyone.members.resize(static_cast<std::size_t>(size()));
  std::iota(everyone.members.begin(), everyone.members.end(), 0);
  everyone.index = rank();
  everyone_ = std::make_unique<Communicator>(communicator(everyone));
}

World::~World() {
  if (!core_ || !core_->engine) return;
  if (std::uncaught_exceptions() > unwinding_) {
    core_->engine->fail("the rank left with an exception");
  }
  core_->device.reset();
  core_->engine.reset();
}

int World::rank() const {
  return core_->rank;
}
bool World::executes() const {
  return core_->engine != nullptr;
}
int World::size() const {
  return core_->size;
}

std::string World::host(int rank) const {
  return core_->engine ? core_->engine->transport().host(rank)
                       : concat("host ", rank / core_->ranks_per_host);
}

void World::rest_at_most(Seconds rest) {
  if (core_->engine) core_->engine->rest_at_most(rest);
}

void World::suspect_after(Seconds wait) {
  if (core_->engine) core_->engine->suspect_after(wait);
}

Seconds World::deadline() const {
  return core_->engine ? core_->engine->deadline() : Seconds();
}

int World::reserve_lanes(int count) {
  FOURFOLD_CHECK(count >= 1);
  return core_->engine ? core_->engine->reserve_lanes(count) : core_->recorded_lanes.reserve(count);
}

Communicator World::communicator(const grid::Group& group) {
  return communicator(group, reserve_lanes(1));
}

void World::use_device(std::unique_ptr<Device> device) {
  FOURFOLD_CHECK(core_->engine && !core_->device, "a world has one device, and executes");
  core_->device =
      std::make_unique<DeviceEngine>(std::move(device), *core_->engine, core_->observers);
}

bool World::has_device() const {
  return core_->device != nullptr;
}

void World::resolve() {
  if (core_->device) core_->device->resolve();
}

void World::report_ended() {
  if (core_->device) core_->device->report_ended();
}

void World::release_device_communicators() {
  if (!core_->device) return;
  core_->device->resolve();
  // Ranks come here at their own times, for which the device would not wait as long as the host.
  everyone_->barrier().wait();
  core_->device->release_communicators();
}

Communicator World::communicator(const grid::Group& group, int number, int purpose) {
  FOURFOLD_CHECK(group.index >= 0 && group.index < group.size() &&
                     group.members[static_cast<std::size_t>(group.index)] == rank(),
                 "rank ", rank(), " is not member ", group.index, " of group ", group);
  FOURFOLD_CHECK(std::all_of(group.members.begin(), group.members.end(),
                             [&](int member) { return member >= 0 && member < size(); }),
                 "group ", group, " has members beyond the world of ", size());
  if (core_->engine) return Communicator(core_, core_->engine->add_lane(group, number, purpose));
  const auto host_of = [&](int member) { return member / core_->ranks_per_host; };
  const bool one_host = std::ranges::all_of(
      group.members, [&](int member) { return host_of(member) == host_of(rank()); });
  const schedule::Reach reach = one_host ? schedule::Reach::kHost : schedule::Reach::kNetwork;
  return Communicator(core_, core_->recorded_lanes.add(group, number, reach));
}

LongWork World::long_work(const std::string& what) {
  return {core_, what};
}

std::int64_t World::control_messages() const {
  return core_->engine ? core_->engine->control_messages() : 0;
}

void World::leave() {
  resolve();
  everyone_->barrier().wait();
}

Counts World::counters() const {
  if (core_->device) core_->device->resolve();
  return core_->counters.counts();
}
Counts World::take_counters() {
  if (core_->device) core_->device->resolve();
  return core_->counters.take();
}
Counts World::take_counters_so_far() {
  report_ended();
  return core_->counters.take();
}
void World::reset_counters() {
  if (core_->device) core_->device->resolve();
  core_->counters.reset();
}

Observation World::observe(Observer& observer) {
  return {core_, observer};
}

void World::computed(std::string_view name, const schedule::Arithmetic& arithmetic) const {
  Computed computed{name, arithmetic, PhaseScope::current(), LayerScope::current()};
  if (!core_->device) computed.until = now();
  core_->observers.tell([&](Observer& observer) { observer.computed(computed); });
  if (core_->device) core_->device->computed(computed);
}

std::int64_t World::operations() const {
  return core_->operations;
}

Bytes World::scratch_peak() const {
  return Bytes(core_->engine ? core_->engine->scratch_peak_bytes() : 0);
}

bool World::fail(const std::string& reason, int status) {
  return !core_->engine || core_->engine->fail(reason, status);
}

void World::abort(const std::string& reason, int status) {
  if (core_->engine) core_->engine->abort(reason, status);
}

}  // namespace fourfold::comm
