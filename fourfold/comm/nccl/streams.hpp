// The streams of a rank on its device, and their events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/nccl/api.hpp"

namespace fourfold::comm::nccl {

/// Events are made once and used again and again. Any thread.
class Events : public std::enable_shared_from_this<Events> {
 public:
  explicit Events(const Api& api) : api_(&api) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events();

  /// An event that goes back when its last copy is gone.
  std::shared_ptr<void> take();

 private:
  const Api* api_;
  std::mutex mutex_;
  std::vector<Event> free_;
};
using EventPtr = std::shared_ptr<void>;

/// Streams by what they are for; see docs/communication.md. Times are those of `now`: the clock of
/// the device is compared with it whenever the device has nothing to do.
class Streams {
 public:
  Streams(const Api& api, std::function<Stream()> compute);
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams();

  Stream compute() const { return compute_(); }
  /// The stream for collectives of lanes with that purpose.
  Stream of_purpose(int purpose);
  /// The stream for what one member of a lane sends to another.
  Stream of_pair(int lane, int from, int to);

  /// An event behind all that the stream was given so far.
  EventPtr record(Stream stream);
  /// What the stream is given from now on comes after the event.
  void wait(Stream stream, const EventPtr& event);
  bool passed(const EventPtr& event) const;
  Seconds time_of(const EventPtr& event) const;

  /// Returns when the compute stream has done all, and compares the clocks.
  void finish();
  /// Moves the comparison of the clocks to a later point of the compute stream, if the device has
  /// passed one. CUDA tells the time between two points in a float, which is exact only for points
  /// that are near each other.
  void keep_time();
  /// Returns when none of the streams for communication has anything to do.
  void drain();
  /// Destroys the streams of pairs, which have nothing to do.
  void forget_pairs();

 private:
  Stream make();

  const Api* api_;
  std::function<Stream()> compute_;
  std::shared_ptr<Events> events_;
  std::map<int, Stream> by_purpose_;
  std::map<std::tuple<int, int, int>, Stream> by_pair_;
  std::mutex drain_mutex_;    // held while streams are waited for, or destroyed
  EventPtr next_anchor_;      // recorded, and perhaps not passed
  mutable std::mutex mutex_;  // guards everything below
  std::vector<Stream> all_;
  EventPtr anchor_;
  Seconds anchored_;  // when the device passed it
};

}  // namespace fourfold::comm::nccl
