// A rank's position in its communication. Ranks tell each other their positions when one of them is
// stuck.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/court.hpp"
#include "fourfold/comm/device.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm {

/// A short text of fixed size, so that a message that contains it can be sent byte by byte.
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
  bool joined = true;       ///< whether the rank has made the communicator of the lane
  std::int64_t issued = 0;  ///< collectives handed to the lane so far
  Place current;            ///< the oldest collective of the lane that is not done
  bool computing = false;   ///< whether a device is still at compute that comes before `current`
  bool waiting = false;     ///< whether compute is blocked in a wait
  FixedText waiting_group;  ///< the group that the rank waits in, and the operation below
  Place waiting_for;
  int awaited = -1;     ///< the rank whose message that operation needs next, or -1
  Seconds waited;       ///< how long the rank has waited so far
  FixedText long_work;  ///< the long work that the rank has announced; empty: none

  static constexpr Seconds kNever{1e18};
  /// How long ago the rank's last long work ended; 0: it still lasts.
  Seconds long_work_over = kNever;
};

struct ControlMessage {
  /// A query is followed by an answer, and a claim of a right by the arbiter's verdict; kRelease
  /// gives the right back. kEnd says that a rank ends the job. kInvite is for the device.
  enum class Kind : std::int32_t { kQuery, kAnswer, kClaim, kVerdict, kRelease, kEnd, kInvite };
  Kind kind = Kind::kQuery;
  int from = -1;
  int lane = -1;           ///< the lane that the query asks about
  std::int64_t query = 0;  ///< the number that the asker gave its query; the answer repeats it
  Position position{};
  Right right = Right::kAsk;  ///< the right that is claimed or given back
  int order = 0;              ///< the order of the claim
  int holder = -1;            ///< the holder of the right, in a verdict
  int status = 0;             ///< the exit status of the job, in kEnd
  Invitation invitation{};
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
  /// Whether the operation is only held up by long work that ranks have announced. Then there is no
  /// failure. Always false when a rank is silent.
  bool patient = false;
  std::vector<int> silent;  ///< ranks that hold it up and do not answer
  /// The ranks that hold the operation up, and why, as far as the answers tell: a rank is silent,
  /// behind, in another operation, or waiting in turn for such a rank. One line, of bounded length.
  std::string line;
};

/// Explains what the answers tell. `answers[r]` is the answer of rank r, if it gave one.
Finding explain(const Stuck& stuck, const std::vector<std::optional<Position>>& answers);

}  // namespace fourfold::comm
