// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/program.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "fourfold/base/check.hpp"
#include "fourfold/plan/compute_time.hpp"

namespace fourfold::plan {

namespace {

using grid::Axis;
using schedule::Collective;
using schedule::Issue;
using schedule::Op;

bool is_pair(Op op) {
  return op == Op::kSend || op == Op::kRecv;
}

/// The index along pipe of the member at `index` of a group over `axes`.
int place_of(const grid::Grid& grid, const grid::Axes& axes, int index) {
  for (std::size_t a = axes.size(); a-- > 0;) {
    if (axes[a] == Axis::kPipe) return index % grid.size(Axis::kPipe);
    index /= grid.size(axes[a]);
  }
  throw InvariantError("the group has no axis pipe");
}

/// The queues that form a channel have the same key.
struct ChannelKey {
  int lane = 0;
  int from = -1;  ///< the place of a queue of one place, or the sender's index in the group
  int to = -1;    ///< the receiver's index in the group
  int alone = 0;  ///< for queues of one place: 1, and 2 for receives

  auto operator<=>(const ChannelKey&) const = default;
};

/// Equal operations over the same axes take equal times.
struct TimeKey {
  Op op;
  schedule::DType dtype;
  schedule::ReduceOp reduce;
  schedule::Priority priority;
  std::int64_t count;
  std::size_t shape;

  bool operator==(const TimeKey&) const = default;
};
struct HashOfTimeKey {
  std::size_t operator()(const TimeKey& key) const {
    const auto small = (static_cast<std::size_t>(key.op) << 8) ^
                       (static_cast<std::size_t>(key.dtype) << 6) ^
                       (static_cast<std::size_t>(key.reduce) << 4) ^
                       (static_cast<std::size_t>(key.priority) << 3) ^ (key.shape << 12);
    return static_cast<std::size_t>(key.count) * 0x9E3779B97F4A7C15U ^ small;
  }
};

class Preparation {
 public:
  Preparation(const std::vector<schedule::Schedule>& places, const grid::Grid& grid,
              const cluster::Cluster& cluster)
      : grid_(grid), cluster_(cluster), pipeline_(places.size() > 1) {
    if (pipeline_) {
      FOURFOLD_CHECK_EQ(places.size(), static_cast<std::size_t>(grid.size(Axis::kPipe)));
    }
    program_.out.resize(places.size());
    program_.in.resize(places.size());
    for (std::size_t place = 0; place < places.size(); ++place) add(place, places[place]);
    for (Channel& channel : program_.channels) finish(channel);
  }

  Program take() { return std::move(program_); }

 private:
  /// Where an operation of the place that is being added is. Empty for a group of one.
  using Position = std::optional<std::pair<std::uint32_t, std::uint32_t>>;

  void add(std::size_t place, const schedule::Schedule& schedule) {
    std::vector<Position> positions;
    std::vector<Instruction> instructions;
    counts_.assign(program_.channels.size(), 0);
    instructions.reserve(schedule.steps().size());
    for (const schedule::Step& step : schedule.steps()) {
      if (const auto* issue = std::get_if<Issue>(&step)) {
        positions.push_back(position_of(place, *issue));
      }
    }
    std::size_t number = 0;
    for (const schedule::Step& step : schedule.steps()) {
      if (const auto* compute = std::get_if<schedule::Compute>(&step)) {
        instructions.push_back({.kind = Instruction::Kind::kCompute,
                                .seconds = seconds_of(*compute, cluster_).value(),
                                .step = &step});
      } else if (std::get_if<Issue>(&step) != nullptr) {
        add(instructions, {.kind = Instruction::Kind::kIssue, .step = &step}, positions[number++]);
      } else {
        const std::int64_t waited = std::get<schedule::Wait>(step).number;
        const std::int64_t index = waited < 0 ? waited + schedule.operations() : waited;
        FOURFOLD_CHECK(index >= 0, "a wait for an operation of an earlier step than the last");
        add(instructions, {.kind = Instruction::Kind::kWait, .previous = waited < 0, .step = &step},
            positions[static_cast<std::size_t>(index)]);
      }
    }
    program_.places.push_back(std::move(instructions));
    check_counts(place);
  }

  static void add(std::vector<Instruction>& instructions, Instruction instruction,
                  const Position& position) {
    if (!position) return;
    instruction.channel = position->first;
    instruction.position = position->second;
    instructions.push_back(instruction);
  }

  /// All places of a channel issue equally many operations.
  void check_counts(std::size_t place) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const Channel& channel = program_.channels[i];
      if (channel.places.back() != place || channel.places.size() == 1) continue;
      FOURFOLD_CHECK_EQ(counts_[i], channel.issues.size(), "operations of places ", place, " and ",
                        channel.places[0], " in ",
                        schedule::to_string(schedule::Step(*channel.issues[0])));
    }
  }

  Position position_of(std::size_t place, const Issue& issue) {
    if (issue.group_size == 1) return std::nullopt;
    FOURFOLD_CHECK(pipeline_ || grid_.size(Axis::kPipe) == 1 || !issue.axes.contains(Axis::kPipe),
                   "the schedule of one place has an operation over pipe: ",
                   schedule::to_string(schedule::Step(issue)));
    const std::uint32_t index = channel_of(place, issue);
    Channel& channel = program_.channels[index];
    if (counts_.size() < program_.channels.size()) counts_.resize(program_.channels.size(), 0);
    const std::uint32_t position = counts_[index]++;
    if (channel.places.empty() || channel.places.back() != place) channel.places.push_back(place);
    if (channel.places.size() == 1) {
      channel.issues.push_back(&issue);
      channel.times.push_back(cost_of(issue));
    } else {
      FOURFOLD_CHECK(position < channel.issues.size(), "place ", place,
                     " issues more operations than place ", channel.places[0], ": ",
                     schedule::to_string(schedule::Step(issue)));
      const Issue& first = *channel.issues[position];
      const bool matches = is_pair(issue.collective.op)
                               ? first.collective.count == issue.collective.count
                               : first.collective == issue.collective;
      FOURFOLD_CHECK(matches, "operations do not match: ", schedule::to_string(first.collective),
                     " and ", schedule::to_string(issue.collective));
    }
    count_nics(place, issue.collective.op, channel.times[position]);
    return std::pair{index, position};
  }

  std::uint32_t channel_of(std::size_t place, const Issue& issue) {
    const schedule::Queue queue = schedule::queue_of(issue);
    const auto cached = queues_.find({place, queue});
    if (cached != queues_.end()) return cached->second;
    const ChannelKey key = key_of(static_cast<int>(place), issue);
    const auto [entry, added] =
        channels_.try_emplace(key, static_cast<std::uint32_t>(program_.channels.size()));
    if (added) {
      program_.channels.push_back(
          {.kind = kind_of(key, issue), .places = {}, .issues = {}, .times = {}});
    }
    queues_[{place, queue}] = entry->second;
    return entry->second;
  }

  static Channel::Kind kind_of(const ChannelKey& key, const Issue& issue) {
    if (!is_pair(issue.collective.op)) return Channel::Kind::kCollective;
    if (key.alone == 0) return Channel::Kind::kPair;
    return issue.collective.op == Op::kSend ? Channel::Kind::kSend : Channel::Kind::kReceive;
  }

  ChannelKey key_of(int place, const Issue& issue) const {
    const Op op = issue.collective.op;
    const bool across = pipeline_ && issue.axes.contains(Axis::kPipe);
    if (!is_pair(op)) {
      return across ? ChannelKey{.lane = issue.lane}
                    : ChannelKey{.lane = issue.lane, .from = place, .alone = 1};
    }
    const int peer = issue.collective.root;
    if (!across || place_of(grid_, issue.axes, peer) == place) {
      // All ranks of the place send and receive at the same time, so this place knows when.
      return {.lane = issue.lane, .from = place, .to = peer, .alone = op == Op::kRecv ? 2 : 1};
    }
    const bool sends = op == Op::kSend;
    return {
        .lane = issue.lane, .from = sends ? issue.index : peer, .to = sends ? peer : issue.index};
  }

  /// Checks that all places take part, and puts the sender of a pair first.
  void finish(Channel& channel) const {
    const Issue& issue = *channel.issues[0];
    const bool all =
        pipeline_ && channel.kind == Channel::Kind::kCollective && issue.axes.contains(Axis::kPipe);
    const std::size_t expected = channel.kind == Channel::Kind::kPair ? 2
                                 : all                                ? program_.places.size()
                                                                      : 1;
    FOURFOLD_CHECK_EQ(channel.places.size(), expected, "places take part in ",
                      schedule::to_string(schedule::Step(issue)));
    const bool receives = issue.collective.op == Op::kRecv;
    if (channel.kind == Channel::Kind::kPair && receives) {
      std::swap(channel.places[0], channel.places[1]);
    }
  }

  /// Each of the groups that use the NICs in turn sends faster than all of them at once.
  OperationTime in_turn(const OperationTime& together, const Collective& c,
                        const cluster::GroupShape& shape, int apart) const {
    if (apart == 1 || !shape.spans_hosts() || shape.siblings % apart != 0) return together;
    cluster::GroupShape alone = shape;
    alone.siblings /= apart;
    const OperationTime faster = time_of(c, alone, cluster_);
    if (faster.transfer >= together.transfer) return together;
    OperationTime time = together;
    time.transfer = faster.transfer;
    time.inside_load = faster.inside_load;
    time.nic_load = faster.nic_load;
    time.apart = apart;
    return time;
  }

  void count_nics(std::size_t place, Op op, const OperationTime& time) {
    const double own = time.transfer.value() * time.nic_load;
    const auto add = [&](NicTime& nics) {
      nics.own += own;
      nics.others += own * (time.apart - 1);
    };
    if (op != Op::kRecv) add(program_.out[place]);
    if (op != Op::kSend) add(program_.in[place]);
    program_.apart = std::max(program_.apart, time.apart);
  }

  OperationTime cost_of(const Issue& issue) {
    const Collective& c = issue.collective;
    const TimeKey key{c.op, c.dtype, c.reduce, c.priority, c.count, shape_of(issue)};
    const auto [entry, added] = times_.try_emplace(key);
    if (added) {
      const cluster::GroupShape& shape = shapes_[key.shape];
      entry->second = in_turn(time_of(c, shape, cluster_), c, shape,
                              groups_in_turn(grid_, issue.axes, cluster_.gpus_per_host));
    }
    return entry->second;
  }

  std::size_t shape_of(const Issue& issue) {
    const bool pair = is_pair(issue.collective.op);
    const bool sends = issue.collective.op == Op::kSend;
    const int from = !pair ? -1 : sends ? issue.index : issue.collective.root;
    const int to = !pair ? -1 : sends ? issue.collective.root : issue.index;
    const auto [entry, added] = shape_numbers_.try_emplace({issue.lane, from, to}, shapes_.size());
    if (added) {
      const int gpus = cluster_.gpus_per_host;
      shapes_.push_back(pair ? cluster::pair_shape(grid_, issue.axes, from, to, gpus)
                             : cluster::part_shape(grid_, issue.axes, issue.group_size, gpus));
    }
    return entry->second;
  }

  const grid::Grid& grid_;
  const cluster::Cluster& cluster_;
  bool pipeline_;
  Program program_;
  std::map<ChannelKey, std::uint32_t> channels_;
  std::map<std::pair<std::size_t, schedule::Queue>, std::uint32_t> queues_;
  std::vector<std::uint32_t> counts_;  // by channel: operations of the place that is being added
  std::map<std::tuple<int, int, int>, std::size_t> shape_numbers_;  // by lane, from and to
  std::vector<cluster::GroupShape> shapes_;
  std::unordered_map<TimeKey, OperationTime, HashOfTimeKey> times_;
};

}  // namespace

int groups_in_turn(const grid::Grid& grid, const grid::Axes& axes, int gpus_per_host) {
  // A pipeline gathers weights and sums gradients along z when a step begins and ends: then all
  // replicas have just waited for each other, and come to their NICs at the same time.
  const bool at_once = grid.size(Axis::kPipe) > 1 && axes.contains(Axis::kZ);
  std::vector<Axis> apart;
  for (const Axis axis : {Axis::kData, Axis::kPipe}) {
    if (axes.contains(axis) || grid.size(axis) == 1) continue;
    if (axis == Axis::kPipe || !at_once) apart.push_back(axis);
  }
  return apart.empty() ? 1 : cluster::shape_of(grid, grid::Axes(apart), gpus_per_host).per_host;
}

Program prepare(const std::vector<schedule::Schedule>& places, const grid::Grid& grid,
                const cluster::Cluster& cluster) {
  return Preparation(places, grid, cluster).take();
}

}  // namespace fourfold::plan
