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

/// What a rank does, for one that is behind.
std::string doing(const Position& position) {
  if (!position.waiting) return "it is outside of communication";
  std::string text =
      concat("it waits for ", position.waiting_for.collective, " (number ",
             position.waiting_for.number, " of group ", position.waiting_group.str(), ")");
  if (position.awaited >= 0) text += concat(", for rank ", position.awaited);
  return text;
}

class Explanation {
 public:
  Explanation(const Stuck& stuck, const Answers& answers) : stuck_(stuck), answers_(answers) {}

  std::string text() {
    for (int member : stuck_.members) {
      if (member != stuck_.rank) judge_member(member);
    }
    if (findings_.empty() && silent_.empty()) follow(stuck_.awaited, {stuck_.rank});
    for (int rank : silent_) add(named(rank) + " does not answer");
    if (findings_.empty()) {
      add("every member has issued it: the network stands still or is too slow");
    }
    return concat(stuck_.place.collective, " (number ", stuck_.place.number, " of group ",
                  stuck_.group, ") is not done after ", stuck_.waited, ": ", join(findings_, "; "));
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
    if (pair) return;  // the peer's own count of this lane says nothing; the waits tell
    if (position.issued <= stuck_.place.number) {
      add(concat(named(position.rank), " is behind, it has issued ", position.issued,
                 " operations there: ", doing(position)));
      if (position.waiting) follow(position.awaited, {stuck_.rank, rank});
    } else if (position.current.number == stuck_.place.number &&
               position.current.collective != stuck_.place.collective) {
      add(concat(named(position.rank), " calls ", position.current.collective, " in its place"));
    }
  }

  /// Whether a rank waits for the stuck operation itself: in a collective the members of a ring or
  /// an exchange wait for each other all the time, as the two ends of a pair do.
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

  /// Walks from a rank to the one that it waits for, until one is silent, does not wait, or comes
  /// twice. Only waits for different operations make a circle that cannot open by itself.
  void follow(int rank, std::set<int> seen) {
    bool elsewhere = seen.size() > 1;  // from a member that is behind
    while (rank >= 0) {
      if (!answer(rank)) {
        silent_.insert(rank);
        return;
      }
      const Position& position = *answer(rank);
      if (!seen.insert(rank).second) {
        if (!elsewhere) return;
        add(concat("the waits form a circle through rank ", rank,
                   ": ranks issue operations in different orders"));
        return;
      }
      if (!position.waiting) {
        add(concat(named(position.rank), " is waited for: ", doing(position)));
        return;
      }
      if (std::find(stuck_.members.begin(), stuck_.members.end(), rank) == stuck_.members.end()) {
        add(concat(named(position.rank), ": ", doing(position)));
      }
      elsewhere = elsewhere || !waits_here(position);
      rank = position.awaited;
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
  std::vector<std::string> findings_;
};

}  // namespace

std::string explain(const Stuck& stuck, const Answers& answers) {
  return Explanation(stuck, answers).text();
}

}  // namespace fourfold::comm
