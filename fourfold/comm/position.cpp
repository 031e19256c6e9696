// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/position.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "fourfold/base/text.hpp"

namespace fourfold::comm {

FixedText::FixedText(const std::string& from) {
  std::memcpy(text, from.data(), std::min(from.size(), sizeof text - 1));
}

namespace {

using Answers = std::vector<std::optional<Position>>;

/// The most ranks that one line names.
constexpr std::size_t kMostFindings = 8;

/// What a rank that is behind is doing.
std::string doing(const Position& position) {
  if (!position.waiting) return "it is outside of communication";
  const std::string work = position.long_work.str();
  std::string text =
      concat("it ", work.empty() ? "" : "is " + work + " and ", "waits for ",
             position.waiting_for.collective, " (number ", position.waiting_for.number,
             " of group ", position.waiting_group.str(), ")");
  if (position.awaited >= 0) text += concat(", for rank ", position.awaited);
  return text;
}

class Explanation {
 public:
  Explanation(const Stuck& stuck, const Answers& answers) : stuck_(stuck), answers_(answers) {}

  Finding finding() {
    for (int member : stuck_.members) {
      if (member != stuck_.rank) judge_member(member);
    }
    if (findings_.empty() && silent_.empty() && !excused_) {
      follow(stuck_.awaited, {stuck_.rank}, {});
      if (stuck_.awaited < 0) name_who_waits_elsewhere();
    }
    for (int rank : silent_) add(named(rank) + " does not answer");
    Finding finding;
    finding.silent.assign(silent_.begin(), silent_.end());
    finding.patient = findings_.empty() && excused_;
    if (findings_.empty()) {
      add("every member has issued it: the network stands still or is too slow");
    }
    if (findings_.size() > kMostFindings) {
      const std::size_t more = findings_.size() - kMostFindings;
      findings_.resize(kMostFindings);
      add(concat("and ", more, " more"));
    }
    finding.line =
        concat(stuck_.place.collective, " (number ", stuck_.place.number, " of group ",
               stuck_.group, ") is not done after ", stuck_.waited, ": ", join(findings_, "; "));
    return finding;
  }

 private:
  const std::optional<Position>& answer(int rank) const {
    return answers_[static_cast<std::size_t>(rank)];
  }

  void judge_member(int rank) {
    if (!answer(rank)) {
      silent_.insert(rank);
      return;
    }
    const Position& position = *answer(rank);
    const bool pair = stuck_.place.collective.op == schedule::Op::kSend ||
                      stuck_.place.collective.op == schedule::Op::kRecv;
    // The peer's own count of this lane says nothing here; its waits do.
    if (pair && (position.joined || rank != stuck_.awaited)) return;
    if (position.issued <= stuck_.place.number) {
      const std::string behind =
          position.joined ? concat(named(position.rank), " is behind, it has issued ",
                                   position.issued, " operations there: ", doing(position))
                          : concat(named(position.rank), " has no communicator for this group and ",
                                   "purpose: ", doing(position));
      if (excused(position)) {
        excused_ = true;
      } else if (position.waiting) {
        follow(position.awaited, {stuck_.rank, rank}, {behind});
      } else {
        add(behind);
      }
    } else if (position.current.number == stuck_.place.number &&
               position.current.collective != stuck_.place.collective) {
      add(concat(named(position.rank), " calls ", position.current.collective, " in its place"));
    }
  }

  /// Whether a rank does long work that it has announced, or did so less than a deadline ago: from
  /// the end of this work on, the rank has as much time as without it. During the work the rank
  /// may wait for other ranks, each time for less than the deadline. A longer wait must be
  /// explained.
  bool excused(const Position& position) const {
    const Seconds since = position.waiting ? position.waited : position.long_work_over;
    return position.long_work_over < stuck_.deadline && since < stuck_.deadline;
  }

  /// Whether a rank waits for the stuck operation itself. The members of a ring or an exchange
  /// normally wait for each other, as the two ends of a pair do.
  bool waits_here(const Position& position) const {
    if (position.waiting_group.str() != FixedText(stuck_.group).str()) return false;
    const schedule::Collective& mine = stuck_.place.collective;
    const schedule::Collective& its = position.waiting_for.collective;
    if ((mine.op == schedule::Op::kSend && its.op == schedule::Op::kRecv) ||
        (mine.op == schedule::Op::kRecv && its.op == schedule::Op::kSend)) {
      const auto root = static_cast<std::size_t>(its.root);
      return root < stuck_.members.size() && stuck_.members[root] == stuck_.rank;
    }
    return position.waiting_for.number == stuck_.place.number && its == mine;
  }

  /// Walks from a rank to the rank that it waits for, until a rank is silent, does not wait, or has
  /// been seen already. Only a circle of waits for different operations is a deadlock. `passed`
  /// holds the findings of the walk so far; they count unless the walk ends at announced long work.
  void follow(int rank, std::set<int> seen, std::vector<std::string> passed) {
    bool elsewhere = seen.size() > 1;  // whether the walk comes from a member that is behind
    for (;; rank = answer(rank)->awaited) {
      if (rank < 0) break;
      if (!answer(rank)) {
        silent_.insert(rank);
        break;
      }
      const Position& position = *answer(rank);
      if (!seen.insert(rank).second) {
        if (elsewhere) {
          passed.push_back(concat("the waits form a circle through rank ", rank,
                                  ": ranks issue operations in different orders"));
        }
        break;
      }
      if (excused(position)) {
        excused_ = true;
        return;
      }
      if (!position.waiting) {
        passed.push_back(concat(named(position.rank), " is waited for: ", doing(position)));
        break;
      }
      if (std::find(stuck_.members.begin(), stuck_.members.end(), rank) == stuck_.members.end()) {
        passed.push_back(concat(named(position.rank), ": ", doing(position)));
      }
      elsewhere = elsewhere || !waits_here(position);
    }
    for (const std::string& finding : passed) add(finding);
  }

  /// Where nobody knows whose message is needed, as on a device: the members that have issued the
  /// operation, and are at another one or at compute.
  void name_who_waits_elsewhere() {
    for (const int member : stuck_.members) {
      const Position& position = *answer(member);
      if (member == stuck_.rank) continue;
      if (position.waiting && !waits_here(position)) {
        add(concat(named(member), " has issued it, and ", doing(position)));
      } else if (!position.waiting && position.computing &&
                 position.current.number == stuck_.place.number) {
        add(concat(named(member), " has issued it, and its device still computes what comes ",
                   "before it"));
      }
    }
  }

  void add(const std::string& finding) {
    if (std::find(findings_.begin(), findings_.end(), finding) == findings_.end()) {
      findings_.push_back(finding);
    }
  }

  std::string named(int rank) const { return concat("rank ", rank, " on ", stuck_.host_of(rank)); }

  const Stuck& stuck_;
  const Answers& answers_;
  std::set<int> silent_;
  bool excused_ = false;  // whether some rank is excused
  std::vector<std::string> findings_;
};

}  // namespace

Finding explain(const Stuck& stuck, const Answers& answers) {
  return Explanation(stuck, answers).finding();
}

}  // namespace fourfold::comm
