// SPDX-License-Identifier: Apache-2.0
#include "tests/schedule/replay.hpp"

#include <deque>
#include <map>
#include <set>

#include "fourfold/base/text.hpp"

namespace fourfold::test {

namespace {

using schedule::Collective;
using schedule::Issue;
using schedule::Op;
using schedule::Wait;

/// An operation of one of the rounds.
struct Issued {
  const Issue* issue;
  std::int64_t number;  ///< counted over all rounds
};

struct Rank {
  std::size_t at = 0;  ///< the next step
  std::size_t round = 0;
  std::map<schedule::Queue, std::deque<Issued>> queues;
  std::set<std::int64_t> done;
};

bool is_pair(Op op) {
  return op == Op::kSend || op == Op::kRecv;
}

/// Whether two ranks at these places of one group mean the same operation.
bool belong_together(const Issue& a, const Issue& b) {
  if (a.lane != b.lane || a.axes != b.axes) return false;
  if (!is_pair(a.collective.op)) return a.collective == b.collective;
  Collective answer = a.collective;
  answer.op = a.collective.op == Op::kSend ? Op::kRecv : Op::kSend;
  answer.root = a.index;
  return answer == b.collective && a.collective.root == b.index;
}

class Replay {
 public:
  Replay(const grid::Grid& grid, const std::vector<schedule::Schedule>& schedules,
         const QueueOf& queue_of)
      : grid_(grid), schedules_(schedules), queue_of_(queue_of), ranks_(schedules.size()) {}

  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        moved |= compute(rank);
        moved |= communicate(rank);
      }
    }
    std::string stuck;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].round < kTimes) {
        stuck += concat("rank ", rank, " stands at step ", ranks_[rank].at, ": ",
                        schedule::to_string(schedules_[rank].steps()[ranks_[rank].at]), "\n");
      }
    }
    return stuck;
  }

 private:
  bool compute(std::size_t rank) {
    Rank& state = ranks_[rank];
    bool moved = false;
    for (; state.round < kTimes; ++state.round, state.at = 0) {
      const bool ended = finish_round(state, schedules_[rank], moved);
      if (!ended) return moved;
    }
    return moved;
  }

  bool finish_round(Rank& state, const schedule::Schedule& schedule, bool& moved) {
    const std::int64_t earlier = static_cast<std::int64_t>(state.round) * schedule.operations();
    for (; state.at < schedule.steps().size(); ++state.at, moved = true) {
      const schedule::Step& step = schedule.steps()[state.at];
      if (const auto* wait = std::get_if<Wait>(&step)) {
        const std::int64_t number = earlier + wait->number;
        if (number >= 0 && !state.done.contains(number)) return false;
      } else if (const auto* issue = std::get_if<Issue>(&step)) {
        if (issue->group_size == 1) {
          state.done.insert(earlier + issue->number);
        } else {
          state.queues[queue_of_(*issue)].push_back({issue, earlier + issue->number});
        }
      }
    }
    return true;
  }

  bool communicate(std::size_t rank) {
    bool moved = false;
    for (auto& [queue, waiting] : ranks_[rank].queues) {
      while (!waiting.empty() && finish(rank, *waiting.front().issue)) moved = true;
    }
    return moved;
  }

  /// Ends the operation on all ranks that take part, if it stands first on each of them.
  bool finish(std::size_t rank, const Issue& issue) {
    std::vector<int> others =
        grid_.part(issue.axes, issue.group_size, static_cast<int>(rank)).members;
    if (is_pair(issue.collective.op)) {
      others = {others[static_cast<std::size_t>(issue.collective.root)]};
    }
    std::vector<std::pair<Rank*, std::deque<Issued>*>> fronts;
    for (const int other : others) {
      Rank& state = ranks_[static_cast<std::size_t>(other)];
      auto* front = other == static_cast<int>(rank) ? &state.queues[queue_of_(issue)]
                                                    : front_of(state, issue);
      if (front == nullptr) return false;
      fronts.push_back({&state, front});
    }
    if (is_pair(issue.collective.op)) {
      fronts.push_back({&ranks_[rank], &ranks_[rank].queues[queue_of_(issue)]});
    }
    for (const auto& [state, queue] : fronts) {
      state->done.insert(queue->front().number);
      queue->pop_front();
    }
    return true;
  }

  static std::deque<Issued>* front_of(Rank& state, const Issue& issue) {
    for (auto& [queue, waiting] : state.queues) {
      if (!waiting.empty() && belong_together(issue, *waiting.front().issue)) return &waiting;
    }
    return nullptr;
  }

  const grid::Grid& grid_;
  const std::vector<schedule::Schedule>& schedules_;
  const QueueOf& queue_of_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::string replay(const grid::Grid& grid, const std::vector<schedule::Schedule>& ranks,
                   const QueueOf& queue_of) {
  return Replay(grid, ranks, queue_of).run();
}

}  // namespace fourfold::test
