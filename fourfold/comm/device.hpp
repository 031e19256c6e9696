// What communicates between buffers in the memory of devices. The engine does so for host memory;
// a device stands beside it, and a buffer's place decides between them (docs/communication.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/buffer.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm {

struct Lane;

/// Asks a member of a lane to help to set up a communicator of the device's library. It travels as
/// a control message, so that it arrives whatever the ranks are doing.
struct Invitation {
  int lane = -1;
  int generation = 0;          ///< how often communicators were released before
  int from = -1;               ///< for sends from this member of the group to another; -1: for all
  int to = -1;                 ///< that other member
  bool has_id = false;         ///< false: the owner of the communicator is asked to make its id
  std::array<char, 128> id{};  ///< by which the members find each other
};

/// What a device may ask of the host side of its rank. Any thread may call these functions.
class DeviceHost {
 public:
  DeviceHost() = default;
  DeviceHost(const DeviceHost&) = delete;
  DeviceHost& operator=(const DeviceHost&) = delete;
  virtual ~DeviceHost() = default;

  virtual int rank() const = 0;
  /// Brings the invitation to the `invited` of that rank's device.
  virtual void invite(const Invitation& invitation, int rank) = 0;
  /// Whether this rank has given up all communication.
  virtual bool failed() const = 0;
  /// Returns when `ready` returns true. Throws CommError when a rank failed or the deadline passed.
  /// Only called during `launch`.
  virtual void wait_until(const std::function<bool()>& ready) = 0;
};

/// Carries out operations on a stream of the device, behind what the compute stream has been given
/// so far. Nothing here waits for an operation: streams wait for each other. Unless noted, only
/// the thread that computes calls these functions.
class Device {
 public:
  /// A point in the order of the compute stream, whose time is known once the device has passed it.
  class Stamp {
   public:
    Stamp() = default;
    Stamp(const Stamp&) = delete;
    Stamp& operator=(const Stamp&) = delete;
    virtual ~Stamp() = default;
  };
  using StampPtr = std::unique_ptr<Stamp>;

  /// An operation that the device was given. Any thread may destroy it once it has ended.
  class Launched {
   public:
    Launched() = default;
    Launched(const Launched&) = delete;
    Launched& operator=(const Launched&) = delete;
    virtual ~Launched() = default;
  };
  using LaunchedPtr = std::unique_ptr<Launched>;

  struct Times {
    Seconds started;
    Seconds ended;
  };

  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// Called once, before all other functions. The host side outlives the device.
  virtual void open(DeviceHost& host) = 0;
  /// A lane has been made. It stays at its address.
  virtual void add_lane(const Lane& lane) = 0;

  /// Gives the device operations of a group of several ranks: one, or several sends and receives
  /// that start together. The result has one for each.
  struct Launch {
    schedule::Collective collective;
    const Buffers* buffers = nullptr;
  };
  virtual std::vector<LaunchedPtr> launch(const Lane& lane,
                                          const std::vector<Launch>& launches) = 0;
  /// Does what the operation means in a group of one, on the compute stream.
  virtual void run_alone(const schedule::Collective& collective, const InOut& buffers) = 0;
  /// The compute stream goes on when the operation has ended.
  virtual void wait(const Launched& launched) = 0;

  /// Whether the device has come to the operation: compute before it has ended. Any thread.
  virtual bool began(const Launched& launched) = 0;
  /// Whether the operation has ended. Any thread.
  virtual bool ended(const Launched& launched) = 0;
  /// When an operation that has ended ran, by the clock of `now`. Any thread.
  virtual Times times_of(const Launched& launched) = 0;

  /// Marks the point that the compute stream has been given so far.
  virtual StampPtr stamp() = 0;
  virtual bool passed(const Stamp& stamp) = 0;
  virtual Seconds time_of(const Stamp& stamp) = 0;  ///< of a stamp that has been passed

  /// Returns when the device has done all that it was given, or has been aborted.
  virtual void finish() = 0;
  /// Compares the clock of the device with itself, so that times stay exact where `finish` is not
  /// called for long. Does not wait.
  virtual void keep_time() = 0;
  /// Gives up the communicators of the library, which are made again when they are needed. All
  /// ranks call it when no rank has an operation under way. Throws CommError where other ranks do
  /// not in time.
  virtual void release_communicators() = 0;

  /// What the device's library says went wrong; empty: nothing. Any thread.
  virtual std::string error() = 0;
  /// Ends all operations under way. When it returns, none touches any memory. Any thread, more than
  /// once.
  virtual void abort() = 0;
  /// A member of a lane invites this rank. Must not block. Any thread, in the order of arrival.
  virtual void invited(const Invitation& invitation) = 0;
};

}  // namespace fourfold::comm
