// Where a rank stands in its communication: what ranks tell each other when one of them is stuck.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/court.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm {

/// A short text of fixed size, so that a message that holds it can be sent as it is.
struct FixedText {
  char text[64] = {};

  FixedText() = default;
  explicit FixedText(const std::string& from);
  std::string str() const { return text; }
};

/// An operation and its place in the order of its lane.
struct Place {
  std::int64_t number = -1;  ///< counted from 0 within the lane; -1: none
  schedule::Collective collective{};
};

/// One rank's answer to "how far are you in this lane, and what do you wait for?".
struct Position {
  int rank = -1;
  std::int64_t issued = 0;  ///< collectives handed to the lane so far
  Place current;            ///< the oldest one of the lane that is not done
  bool waiting = false;     ///< the compute stream stands still in a wait
  FixedText waiting_group;  ///< the group that it waits in, and the operation
  Place waiting_for;
  int awaited = -1;  ///< the rank whose message that operation needs next, or -1
  Seconds waited;    ///< so far
  FixedText phase;   ///< the long work that it has announced; empty: none

  static constexpr Seconds kNever{1e18};
  Seconds phase_over = kNever;  ///< how long ago its last phase ended; 0: it lasts
};

struct ControlMessage {
  /// A query is followed by an answer, a claim of a right by the arbiter's verdict. The end tells
  /// that a rank ends the job.
  enum class Kind : std::int32_t { kQuery, kAnswer, kClaim, kVerdict, kEnd };
  Kind kind = Kind::kQuery;
  int from = -1;
  int lane = -1;           ///< that the query asks about
  std::int64_t query = 0;  ///< the asker's number of it, repeated in the answer
  Position position{};
  Right right = Right::kAsk;  ///< that is claimed
  int order = 0;              ///< of the claim
  int holder = -1;            ///< by the verdict
  int status = 0;             ///< the job's, at its end
};

/// What the rank that passed its deadline knows.
struct Stuck {
  int rank = 0;
  std::string group;         ///< as printed
  std::vector<int> members;  ///< ranks of the world
  std::function<std::string(int)> host_of;
  Place place;  ///< the operation that is not done
  int awaited = -1;
  Seconds waited;
  Seconds deadline;
};

struct Finding {
  /// Whether all that holds the operation up are phases that ranks have announced: then it is no
  /// failure. Never when a rank is silent.
  bool patient = false;
  /// Which ranks hold the operation up, and why as far as the answers tell: silent, behind, in
  /// another operation, or waiting in turn for one of these. One line, of bounded length.
  std::string line;
};

/// What the answers tell. `answers[r]` is rank r's, if it gave one.
Finding explain(const Stuck& stuck, const std::vector<std::optional<Position>>& answers);

}  // namespace fourfold::comm
