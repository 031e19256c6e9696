// Drives the operations of one rank that its device carries out: tells observers of them when their
// times are known, and notices when one does not end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "fourfold/comm/device.hpp"
#include "fourfold/comm/engine.hpp"
#include "fourfold/comm/observer.hpp"

namespace fourfold::comm {

/// Unless noted, only the thread that computes calls these functions.
class DeviceEngine final : public DeviceHost {
 public:
  /// The engine and the observers must outlive this.
  DeviceEngine(std::unique_ptr<Device> device, Engine& engine, const Observers& observers);
  /// Waits for the operations under way, unless the engine has failed.
  ~DeviceEngine() override;

  /// What is handed to a lane. `of_rank` is its number for observers.
  struct Submission {
    schedule::Collective collective;
    Buffers buffers;
    std::int64_t of_rank = 0;
  };
  /// Gives the device one operation, or several sends and receives that start together. Throws
  /// CommError when a rank failed.
  std::vector<IssuedPtr> submit(Lane& lane, std::vector<Submission>&& submissions);
  void run_alone(const schedule::Collective& collective, const InOut& buffers);
  /// The compute stream waits for the operation; this returns at once. Throws CommError when a rank
  /// failed.
  void wait(const IssuedPtr& issued);
  /// Whether the operation has ended.
  bool test(const IssuedPtr& issued);

  /// Notes where the compute stream is, for observers that want to know when.
  void computed(const Computed& computed);
  /// Returns when the device has done all that it was given and observers have been told. Throws
  /// CommError when a rank failed or the deadline passed.
  void resolve();
  /// Tells observers what is known by now, and does not wait. Throws CommError when a rank failed.
  void report_ended();
  /// See Device. No rank may have an operation under way.
  void release_communicators();

  /// Ends all operations under way. The engine must have failed. Any thread.
  void abort();

  int rank() const override { return engine_->transport().rank(); }
  void invite(const Invitation& invitation, int rank) override;
  bool failed() const override { return engine_->has_failed(); }
  void wait_until(const std::function<bool()>& ready) override;

 private:
  /// Operations that end in the order of issue: the collectives of a lane, or its sends to or
  /// receives from one peer.
  using QueueKey = std::tuple<int, int, bool>;
  struct UnderWay {
    IssuedPtr issued;
    Seconds since;         ///< when the device came to it, if it has
    bool awaited = false;  ///< the compute stream waits for it
  };
  /// A wait, or compute, of the compute stream, to be reported when its time is known.
  struct Entry {
    Device::StampPtr stamp;
    IssuedPtr issued;  ///< of a wait; null: compute
    std::string name;
    schedule::Arithmetic arithmetic;
    schedule::Phase phase = schedule::Phase::kForward;
    std::string layer;
  };

  static QueueKey queue_of(const Issued& issued);
  void run();
  void collect();
  void report();
  bool is_known(const Entry& entry);
  std::pair<IssuedPtr, Seconds> oldest();
  /// Null: no launch is under way, or the engine watches it.
  void begin_launch(const IssuedPtr& issued);
  void throw_if_failed();

  std::unique_ptr<Device> device_;
  Engine* engine_;
  const Observers* observers_;
  std::deque<Entry> journal_;  // in the order of the compute stream

  std::mutex mutex_;     // guards everything below
  IssuedPtr launching_;  // only the thread that computes writes it, and reads it without the mutex
  Seconds launching_since_;
  std::map<QueueKey, std::deque<UnderWay>> under_way_;
  Seconds progress_;  // when an operation ended last
  bool stopping_ = false;
  std::condition_variable stop_;
  std::thread watchdog_;
};

}  // namespace fourfold::comm
