// Writes down what a rank does last, so that it can be read when the rank is gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fourfold/comm/observer.hpp"
#include "fourfold/comm/world.hpp"

namespace fourfold::comm {

struct FlightFile;

/// Keeps the newest 4096 operations in a file that is mapped into memory: it is complete also if
/// the process is killed. Costs a few stores for each operation.
class FlightRecorder final : public Observer {
 public:
  static constexpr std::int64_t kKept = 4096;

  /// Makes the file, and its folder. Throws IoError.
  FlightRecorder(World& world, const std::filesystem::path& path);
  ~FlightRecorder() override;

  /// A step of training begins.
  void begin_step(std::int64_t number);

  void computed(const Computed& computed) override;
  void issued(const Observed& operation, std::string_view layer) override;
  void ended(const Observed& operation, const Run& run) override;
  void awaited(std::int64_t number) override;
  void waited(const Observed& operation, const std::optional<Blocked>& blocked) override;
  void work_began(std::string_view what) override;
  void work_ended() override;
  void gave_up(const std::vector<int>& silent) override;

 private:
  void add_lane(const Observed& operation);
  void seen();
  void update_waiting();

  FlightFile* file_ = nullptr;           // mapped
  std::map<int, std::int64_t> in_lane_;  // operations of each lane so far
  double offset_ = 0;                    // from `now` to seconds since 1970
  std::vector<std::string> works_;       // that are under way, the innermost last
  std::mutex mutex_;                     // guards the set, and when operations end
  std::set<std::int64_t> awaited_;       // what compute waits for; with a device it may be several
  Observation observation_;              // the last member: it uses all others
};

}  // namespace fourfold::comm
