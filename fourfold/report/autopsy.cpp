// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/autopsy.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "fourfold/base/text.hpp"

namespace fourfold::report {

using comm::FlightLane;
using comm::FlightLog;
using comm::FlightOperation;

namespace {

bool is_pair(schedule::Op op) {
  return op == schedule::Op::kSend || op == schedule::Op::kRecv;
}

const FlightLane* lane_of(const FlightLog& log, int number) {
  const auto found = std::find_if(log.lanes.begin(), log.lanes.end(),
                                  [&](const FlightLane& lane) { return lane.number == number; });
  return found == log.lanes.end() ? nullptr : &*found;
}

/// What the rank waits for, or null.
const FlightOperation* awaited_by(const FlightLog& log) {
  const auto found = std::find_if(
      log.operations.begin(), log.operations.end(),
      [&](const FlightOperation& operation) { return operation.number == log.waiting_for; });
  return found == log.operations.end() || found->ended > 0 ? nullptr : &*found;
}

/// Whether the rank has issued the operation of that number in its lane.
bool has_issued(const FlightLog& log, const FlightOperation& operation) {
  return std::any_of(log.operations.begin(), log.operations.end(), [&](const FlightOperation& own) {
    return own.lane == operation.lane && own.in_lane >= operation.in_lane;
  });
}

class Examination {
 public:
  explicit Examination(std::vector<FlightLog> logs) {
    for (FlightLog& log : logs) {
      ranks_ = std::max(ranks_, log.ranks);
      newest_ = std::max(newest_, log.seen);
      by_rank_.emplace(log.rank, std::move(log));
    }
  }

  Autopsy result() {
    Autopsy found;
    for (const auto& [rank, log] : by_rank_) {
      found.ranks.push_back(line_of(log));
      for (const int other : held_up_by(log)) waiting_for_[other].insert(rank);
    }
    add_silent(found);
    if (found.culprits.empty()) add_causes(found);
    if (found.culprits.empty()) add_lost(found);
    if (found.culprits.empty()) add_circle(found);
    found.summary = summary_of(found);
    return found;
  }

 private:
  bool any_left() const {
    return std::any_of(by_rank_.begin(), by_rank_.end(),
                       [](const auto& entry) { return entry.second.left; });
  }

  /// Ranks that did not answer when others asked them. What the ranks asked for counts more than
  /// what the logs tell: those that are ended with the job may not come to the end of their logs.
  void add_silent(Autopsy& found) const {
    std::map<int, std::set<int>> askers;
    for (const auto& [rank, log] : by_rank_) {
      for (const int silent : log.silent) askers[silent].insert(rank);
    }
    for (const auto& [rank, others] : askers) {
      const auto log = by_rank_.find(rank);
      const std::string who =
          log == by_rank_.end()
              ? concat("rank ", rank, " has left no log")
              : concat(named(log->second), " held the job up: it ", state_of(log->second));
      found.culprits.push_back(
          {rank, concat(who, "; it did not answer rank ", ranges({others.begin(), others.end()}))});
    }
  }

  /// Ranks that others waited for, and that did not wait for a rank that had not come. A rank that
  /// has ended by itself, because another one failed, is only named if all have.
  void add_causes(Autopsy& found) const {
    for (const bool left : {false, true}) {
      for (const auto& [rank, others] : waiting_for_) {
        const auto log = by_rank_.find(rank);
        const bool its = log != by_rank_.end() && log->second.left;
        if (is_cause(rank) && its == left) found.culprits.push_back({rank, why(rank, others)});
      }
      if (!found.culprits.empty()) return;
    }
  }

  /// Where all have come, those that did not end by themselves when the others gave up.
  void add_lost(Autopsy& found) const {
    if (!any_left()) return;
    for (const auto& [rank, log] : by_rank_) {
      if (log.left) continue;
      found.culprits.push_back(
          {rank, concat(named(log), " held the job up: it was killed or stopped when it ",
                        state_of(log))});
    }
  }

  /// The ranks that the rank's wait is for.
  std::vector<int> held_up_by(const FlightLog& log) const {
    const FlightOperation* operation = awaited_by(log);
    const FlightLane* lane = operation == nullptr ? nullptr : lane_of(log, operation->lane);
    if (lane == nullptr) return {};
    std::vector<int> found;
    for (std::size_t i = 0; i < lane->members.size(); ++i) {
      const int member = lane->members[i];
      if (member == log.rank) continue;
      if (is_pair(operation->op)) {
        if (static_cast<int>(i) == operation->root) found.push_back(member);
        continue;
      }
      const auto other = by_rank_.find(member);
      if (other == by_rank_.end() || !has_issued(other->second, *operation)) {
        found.push_back(member);
      }
    }
    return found;
  }

  /// Whether the rank does not wait for others itself.
  bool is_cause(int rank) const {
    const auto log = by_rank_.find(rank);
    return log == by_rank_.end() || held_up_by(log->second).empty();
  }

  std::string named(const FlightLog& log) const {
    return concat("rank ", log.rank, " on ", log.host);
  }

  std::string ago(double time) const {
    return concat(Seconds(std::max(0.0, newest_ - time)), " before the end");
  }

  std::string shown(const FlightLog& log, const FlightOperation& operation) const {
    const FlightLane* lane = lane_of(log, operation.lane);
    const std::string group = lane == nullptr
                                  ? concat("lane ", operation.lane)
                                  : concat(lane->axes, " [", join(lane->members, " "), "]");
    return concat(operation.op, " of ", operation.count, " ", operation.dtype, " (number ",
                  operation.in_lane, " of group ", group, ")",
                  operation.layer.empty() ? "" : concat(" for ", operation.layer));
  }

  std::string state_of(const FlightLog& log) const {
    if (const FlightOperation* operation = awaited_by(log)) {
      return concat("waited ", Seconds(std::max(0.0, newest_ - operation->waited)), " for ",
                    shown(log, *operation));
    }
    if (!log.doing.empty()) return concat("was ", log.doing, ", last seen ", ago(log.seen));
    if (log.operations.empty()) return concat("did not communicate, last seen ", ago(log.seen));
    return concat("computed after ", shown(log, log.operations.back()), ", last seen ",
                  ago(log.seen));
  }

  std::string line_of(const FlightLog& log) const {
    return concat(named(log), ", step ", log.step, ": ", state_of(log));
  }

  std::string why(int rank, const std::set<int>& others) const {
    const std::string held = concat(others.size() == 1 ? "rank " : "ranks ",
                                    ranges({others.begin(), others.end()}), " waited for it");
    const auto log = by_rank_.find(rank);
    if (log == by_rank_.end()) return concat("rank ", rank, " has left no log, and ", held);
    return concat(named(log->second), " held the job up: it ", state_of(log->second), "; ", held);
  }

  /// Ranks that all wait for each other.
  void add_circle(Autopsy& found) const {
    for (const auto& [rank, others] : waiting_for_) {
      const auto log = by_rank_.find(rank);
      found.culprits.push_back(
          {rank, concat(named(log->second), " ", state_of(log->second), ", and is waited for by ",
                        others.size() == 1 ? "rank " : "ranks ",
                        ranges({others.begin(), others.end()}))});
    }
  }

  std::string summary_of(const Autopsy& found) const {
    std::vector<int> missing;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!by_rank_.contains(rank)) missing.push_back(rank);
    }
    const std::string lost =
        missing.empty()
            ? ""
            : concat("; no log of ", missing.size() == 1 ? "rank " : "ranks ", ranges(missing));
    if (found.culprits.empty()) {
      return concat("no rank waited for another when the job ended", lost);
    }
    if (found.culprits.size() == 1) return found.culprits[0].line + lost;
    std::vector<int> all;
    for (const Culprit& culprit : found.culprits) all.push_back(culprit.rank);
    return concat("ranks ", ranges(all), " held the job up", lost);
  }

  std::map<int, FlightLog> by_rank_;
  std::map<int, std::set<int>> waiting_for_;  // by rank: who waits for it
  int ranks_ = 0;
  double newest_ = 0;
};

}  // namespace

Autopsy autopsy(std::vector<FlightLog> logs) {
  return Examination(std::move(logs)).result();
}

}  // namespace fourfold::report
