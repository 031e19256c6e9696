// SPDX-License-Identifier: Apache-2.0
#include "tests/support/stand_in_streams.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fourfold/base/check.hpp"

namespace fourfold::test::stand_in {

using comm::nccl::Event;
using comm::nccl::kNotReady;
using comm::nccl::kSuccess;
using comm::nccl::Stream;

namespace {
std::unique_ptr<State> the_state;
thread_local int chosen_device = 0;

/// What streams were given may need an event that the host has destroyed, as in CUDA.
const std::shared_ptr<EventState>& shared_event(Event event) {
  return *static_cast<std::shared_ptr<EventState>*>(event);
}
EventState& event_of(Event event) {
  return *shared_event(event);
}

int create_event(Event* event) {
  *event = new std::shared_ptr<EventState>(std::make_shared<EventState>());
  return kSuccess;
}
int destroy_event(Event event) {
  delete static_cast<std::shared_ptr<EventState>*>(event);
  return kSuccess;
}
}  // namespace

void join(Known& to, const Known& from) {
  for (const auto& [stream, number] : from) to[stream] = std::max(to[stream], number);
}

State& state() {
  FOURFOLD_CHECK(the_state != nullptr, "there is no stand_in::Machine");
  return *the_state;
}
int current_device() {
  return chosen_device;
}
void choose_device(int device) {
  chosen_device = device;
}
StreamState& real(Stream stream) {
  if (stream != nullptr) return *static_cast<StreamState*>(stream);
  return state().devices[static_cast<std::size_t>(chosen_device)].null;
}
void nap(unsigned microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

void State::fault(const std::string& text) {
  const std::lock_guard lock(fault_mutex);
  if (std::ranges::find(faults, text) == faults.end()) faults.push_back(text);
}

bool until(const std::string& what, const std::function<bool()>& done,
           const std::function<bool()>& ended) {
  State& all = state();
  const Seconds end = now() + all.settings.deadline;
  for (unsigned rest = 10; !done(); rest = std::min(2 * rest, 400U)) {
    if (all.stuck || ended()) return false;
    if (now() > end) {
      if (!all.stuck.exchange(true)) all.fault("stuck: " + what);
      return false;
    }
    nap(rest);
  }
  return true;
}

// The queue of a stream gives its thread what the host has done before, and the host nothing.
StreamState::StreamState(bool on_host) : host(on_host), compute(on_host) {
  if (host) return;
  tail = new Item;
  worker = std::thread([item = tail]() mutable {
    for (;;) {
      Item* next = nullptr;
      for (unsigned rest = 10; (next = item->next.load(std::memory_order_acquire)) == nullptr;
           rest = std::min(2 * rest, 400U)) {
        nap(rest);
      }
      delete item;
      item = next;
      if (!item->run) break;
      item->run();
      item->run = nullptr;
    }
    delete item;
  });
}

StreamState::~StreamState() {
  if (!host) {
    push(nullptr);
    worker.join();
  }
  for (const auto& [bytes, memory] : free) std::free(memory);
}

void StreamState::push(std::function<void()> run) {
  if (host) {
    if (run) run();
    return;
  }
  auto* item = new Item;
  item->run = std::move(run);
  Item* last = std::exchange(tail, item);
  last->next.store(item, std::memory_order_release);
}

void enqueue(StreamState& stream, const std::string& name, const std::vector<Range>& ranges,
             Known* also, std::function<void()> body, bool slow) {
  State& all = state();
  DeviceState& device = all.devices[static_cast<std::size_t>(stream.device)];
  unsigned delay = 0;
  std::function<void()> run;
  {
    const std::lock_guard lock(device.mutex);
    join(stream.known, device.host);
    if (also != nullptr) join(stream.known, *also);
    std::erase_if(device.history, [&](const Access& access) {
      const auto found = device.host.find(access.stream);
      return found != device.host.end() && access.number <= found->second;
    });
    const std::uint64_t number = ++stream.issued;
    for (const Range& range : ranges) {
      if (range.bytes == 0) continue;
      const auto* begin = static_cast<const char*>(range.data);
      for (const Access& other : device.history) {
        const bool overlap = other.begin < begin + range.bytes && begin < other.end;
        if (!overlap || !(other.write || range.write) || other.stream == &stream) continue;
        if (stream.known[other.stream] >= other.number) continue;
        all.fault(concat("unordered on device ", stream.device, ": ", name,
                         range.write ? " writes" : " reads", " what ", other.name,
                         other.write ? " writes" : " reads"));
      }
      device.history.push_back({begin, begin + range.bytes, range.write, &stream, number, name});
    }
    stream.known[&stream] = number;
    if (also != nullptr) *also = stream.known;
    const auto mixed =
        (all.settings.seed * 2654435761U) ^
        static_cast<unsigned>(number * 40503U +
                              (64U * static_cast<unsigned>(stream.device) + stream.serial) * 9176U);
    delay = mixed % 13 == 0 ? 1000 : mixed % 100;
    if (!slow || stream.host) delay = 0;
    // Several threads of a rank may use a stream, but only one the null stream.
    run = [body = std::move(body), delay] {
      if (delay > 0) nap(delay);
      body();
    };
    if (!stream.host) stream.push(std::exchange(run, nullptr));
  }
  if (run) run();
}

namespace {

/// CUDA would use the device that the thread has chosen, or else the first.
void expect_device(int device, const char* what) {
  if (device == chosen_device) return;
  state().fault(
      concat("a thread that has chosen device ", chosen_device, " ", what, " device ", device));
}

int record(Event event, Stream stream) {
  EventState& to = event_of(event);
  StreamState& on = real(stream);
  Known after;
  enqueue(
      on, "record", {}, &after,
      [recorded = shared_event(event), n = ++to.recorded] {
        recorded->at = static_cast<std::int64_t>(now().value() * 1e9);
        recorded->done.store(n, std::memory_order_release);
      },
      false);
  to.device = on.device;
  to.known = std::move(after);
  if (state().mistake == Mistake::kEarlyRecord) {
    for (auto& late : std::exchange(on.held, {})) late();
  }
  return kSuccess;
}

int wait(Stream stream, Event event) {
  StreamState& on = real(stream);
  DeviceState& device = state().devices[static_cast<std::size_t>(on.device)];
  std::shared_ptr<EventState> from = shared_event(event);
  const Mistake mistake = state().mistake;
  if (mistake == Mistake::kLaneIgnoresCompute && !on.compute) return kSuccess;
  if (mistake == Mistake::kComputeIgnoresLane && on.compute) return kSuccess;
  if (on.compute) {
    std::shared_ptr<EventState> before = std::exchange(device.waited, from);
    if (mistake == Mistake::kWrongEvent && before != nullptr) from = std::move(before);
  }
  Known before = from->known;
  enqueue(
      on, "wait", {}, &before,
      [from, n = from->recorded] {
        until("a stream that waits for an event",
              [&] { return from->done.load(std::memory_order_acquire) >= n; });
      },
      false);
  return kSuccess;
}

int query(Event event) {
  EventState& of = event_of(event);
  expect_device(of.device, "asks for an event of");
  if (state().stuck) return kUnknownError;
  return of.done.load(std::memory_order_acquire) < of.recorded ? kNotReady : kSuccess;
}

/// The host waits, and knows afterwards what the event knew.
int synchronize(Event event) {
  EventState& of = event_of(event);
  const bool done = until("the host that waits for an event",
                          [&] { return of.done.load(std::memory_order_acquire) >= of.recorded; });
  if (!done) return kUnknownError;
  DeviceState& device = state().devices[static_cast<std::size_t>(of.device)];
  const std::lock_guard lock(device.mutex);
  join(device.host, of.known);
  return kSuccess;
}

int elapsed(float* milliseconds, Event from, Event to) {
  expect_device(event_of(to).device, "asks for a time of");
  *milliseconds =
      static_cast<float>(static_cast<double>(event_of(to).at - event_of(from).at) * 1e-6);
  return kSuccess;
}

int copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  const auto size = static_cast<std::int64_t>(bytes);
  launch(stream, "copy", {{from, size, false}, {to, size, true}},
         [=] { std::memcpy(to, from, bytes); });
  return kSuccess;
}

/// Memory goes back to its stream, where it is used again in order.
int allocate(void** memory, std::size_t bytes, Stream stream) {
  StreamState& on = real(stream);
  const auto found = on.free.lower_bound(bytes);
  if (found == on.free.end()) {
    *memory = std::malloc(bytes + sizeof(std::size_t));
    std::memcpy(*memory, &bytes, sizeof bytes);
  } else {
    *memory = found->second;
    on.free.erase(found);
  }
  *memory = static_cast<char*>(*memory) + sizeof(std::size_t);
  return kSuccess;
}

int release(void* memory, Stream stream) {
  void* all = static_cast<char*>(memory) - sizeof(std::size_t);
  std::size_t bytes = 0;
  std::memcpy(&bytes, all, sizeof bytes);
  real(stream).free.emplace(bytes, all);
  return kSuccess;
}

}  // namespace

void fill_streams(comm::nccl::Api& api) {
  api.set_device = [](int device) {
    choose_device(device);
    return kSuccess;
  };
  api.stream_create = [](Stream* stream) {
    auto* made = new StreamState(false);
    made->device = current_device();
    made->serial = ++state().devices[static_cast<std::size_t>(made->device)].streams;
    *stream = made;
    return kSuccess;
  };
  api.stream_destroy = [](Stream stream) {
    delete static_cast<StreamState*>(stream);
    return kSuccess;
  };
  api.stream_wait = wait;
  api.stream_synchronize = [](Stream stream) {
    expect_device(real(stream).device, "waits for a stream of");
    Event event = nullptr;
    create_event(&event);
    record(event, stream);
    const int result = synchronize(event);
    destroy_event(event);
    return result;
  };
  api.event_create = create_event;
  api.event_destroy = destroy_event;
  api.event_record = record;
  api.event_query = query;
  api.event_synchronize = synchronize;
  api.event_elapsed = elapsed;
  api.copy = copy;
  api.allocate = allocate;
  api.release = release;
  api.cuda_error = [](int) { return "the stand-in is stuck"; };
}

void launch(Stream stream, const char* name, const std::vector<Range>& ranges,
            std::function<void()> body) {
  enqueue(real(stream), name, ranges, nullptr, std::move(body));
}

Stream make_compute_stream() {
  Stream stream = nullptr;
  api().stream_create(&stream);
  real(stream).compute = true;
  const std::lock_guard lock(state().fault_mutex);
  state().compute.emplace_back(static_cast<StreamState*>(stream));
  return stream;
}

void use_device(comm::World& world, comm::nccl::Options options) {
  options.device = world.rank();
  world.use_device(comm::nccl::open(api(), options));
}

const comm::nccl::Api& api() {
  static const comm::nccl::Api filled = [] {
    comm::nccl::Api made;
    fill_streams(made);
    fill_nccl(made);
    return made;
  }();
  return filled;
}

Machine::Machine(const Settings& settings, Mistake mistake) {
  FOURFOLD_CHECK(the_state == nullptr, "there is one stand_in::Machine at a time");
  the_state = std::make_unique<State>(settings, mistake);
}
Machine::~Machine() {
  the_state->ends = true;
  while (the_state->blocked > 0) nap(400);
  the_state->compute.clear();  // while the state is there, which kernels look at
  forget_communicators();
  the_state.reset();
}
int Machine::communicators() const {
  return state().communicators;
}
std::vector<std::string> Machine::faults() const {
  const std::lock_guard lock(state().fault_mutex);
  return state().faults;
}

}  // namespace fourfold::test::stand_in
