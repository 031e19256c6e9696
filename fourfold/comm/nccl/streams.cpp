// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/nccl/streams.hpp"

#include <tuple>

#include "fourfold/comm/nccl/communicators.hpp"

namespace fourfold::comm::nccl {

Events::~Events() {
  for (const Event event : free_) static_cast<void>(api_->event_destroy(event));
}

EventPtr Events::take() {
  Event event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) check_cuda(*api_, api_->event_create(&event), "make an event");
  return {event, [pool = shared_from_this()](Event back) {
            const std::lock_guard lock(pool->mutex_);
            pool->free_.push_back(back);
          }};
}

Streams::Streams(const Api& api, std::function<Stream()> compute)
    : api_(&api), compute_(std::move(compute)), events_(std::make_shared<Events>(api)) {}

Streams::~Streams() {
  for (const Stream stream : all_) static_cast<void>(api_->stream_destroy(stream));
}

Stream Streams::make() {
  Stream stream = nullptr;
  check_cuda(*api_, api_->stream_create(&stream), "make a stream");
  const std::lock_guard lock(mutex_);
  return all_.emplace_back(stream);
}

Stream Streams::of_purpose(int purpose) {
  const auto [place, added] = by_purpose_.try_emplace(purpose);
  if (added) place->second = make();
  return place->second;
}

Stream Streams::of_pair(int lane, int from, int to) {
  const auto [place, added] = by_pair_.try_emplace({lane, from, to});
  if (added) place->second = make();
  return place->second;
}

EventPtr Streams::record(Stream stream) {
  EventPtr event = events_->take();
  check_cuda(*api_, api_->event_record(event.get(), stream), "record an event");
  return event;
}

void Streams::wait(Stream stream, const EventPtr& event) {
  check_cuda(*api_, api_->stream_wait(stream, event.get()), "let a stream wait");
}

bool Streams::passed(const EventPtr& event) const {
  const int result = api_->event_query(event.get());
  if (result == kNotReady) return false;
  check_cuda(*api_, result, "run what it was given");
  return true;
}

Seconds Streams::time_of(const EventPtr& event) const {
  const std::lock_guard lock(mutex_);
  float milliseconds = 0;
  check_cuda(*api_, api_->event_elapsed(&milliseconds, anchor_.get(), event.get()), "tell a time");
  return anchored_ + Seconds(static_cast<double>(milliseconds) * 1e-3);
}

void Streams::finish() {
  check_cuda(*api_, api_->stream_synchronize(compute()), "run what it was given");
  next_anchor_.reset();
  // The event happens between two readings of the host's clock, and the nearer these are, the
  // better it is known when. A busy host may need several tries.
  constexpr int kTries = 4;
  constexpr Seconds kNear{1e-4};
  EventPtr nearest;
  Seconds at;
  Seconds apart;
  for (int tries = 0; tries < kTries && (nearest == nullptr || apart > kNear); ++tries) {
    const Seconds before = now();
    EventPtr anchor = record(compute());
    check_cuda(*api_, api_->event_synchronize(anchor.get()), "run what it was given");
    const Seconds after = now();
    if (nearest != nullptr && after - before >= apart) continue;
    nearest = std::move(anchor);
    apart = after - before;
    at = before + 0.5 * apart;
  }
  const std::lock_guard lock(mutex_);
  anchor_ = std::move(nearest);
  anchored_ = at;
}

void Streams::keep_time() {
  if (next_anchor_ == nullptr) {
    next_anchor_ = record(compute());
  } else if (passed(next_anchor_)) {
    const Seconds at = time_of(next_anchor_);
    const std::lock_guard lock(mutex_);
    anchor_ = std::move(next_anchor_);
    anchored_ = at;
  }
}

void Streams::drain() {
  const std::lock_guard one(drain_mutex_);
  std::vector<Stream> all;
  {
    const std::lock_guard lock(mutex_);
    all = all_;
  }
  // An error is none here: the streams are drained after a failure.
  for (const Stream stream : all) static_cast<void>(api_->stream_synchronize(stream));
}

void Streams::forget_pairs() {
  const std::lock_guard one(drain_mutex_);
  const std::lock_guard lock(mutex_);
  for (const auto& [pair, stream] : by_pair_) {
    std::erase(all_, stream);
    static_cast<void>(api_->stream_destroy(stream));
  }
  by_pair_.clear();
}

}  // namespace fourfold::comm::nccl
