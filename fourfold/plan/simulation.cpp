// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/simulation.hpp"

#include <algorithm>
#include <limits>

#include "fourfold/base/check.hpp"

namespace fourfold::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The shared resources of a place: links inside its hosts, and what its NICs send and receive.
enum Resource : std::size_t { kInside, kOut, kIn, kResources };

void list_uses(std::vector<Use>& uses, const Channel& channel, const OperationTime& time) {
  uses.clear();
  const auto add = [&](std::size_t place, Resource resource, double load) {
    if (load > 0) uses.push_back({place * kResources + resource, load});
  };
  for (std::size_t i = 0; i < channel.places.size(); ++i) {
    const bool pair = channel.kind == Channel::Kind::kPair;
    const bool out = pair ? i == 0 : channel.kind != Channel::Kind::kReceive;
    const bool in = pair ? i == 1 : channel.kind != Channel::Kind::kSend;
    add(channel.places[i], kInside, time.inside_load);
    if (out) add(channel.places[i], kOut, time.nic_load);
    if (in) add(channel.places[i], kIn, time.nic_load);
  }
}

}  // namespace

Simulation::Simulation(const Program& program, const cluster::Cluster& cluster,
                       std::size_t most_steps, bool record)
    : program_(program),
      slowdown_(cluster.device.slowdown),
      priorities_(cluster.network.library == cluster::Library::kFourfold),
      record_(record),
      most_steps_(most_steps),
      streams_(program.places.size()),
      lines_(program.channels.size()),
      sharing_(program.places.size() * kResources),
      results_(program.places.size()) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    lines_[i].issued.assign(program.channels[i].places.size(), 0);
    lines_[i].issued_at.resize(program.channels[i].places.size());
  }
  for (std::size_t place = 0; place < streams_.size(); ++place) proceed(place);
}

void Simulation::limit_nics(std::size_t place, double out, double in) {
  sharing_.limit(place * kResources + kOut, out);
  sharing_.limit(place * kResources + kIn, in);
  changed_ = true;
}

void Simulation::run(std::size_t count) {
  FOURFOLD_CHECK(count <= most_steps_);
  const auto finished = [&] {
    return std::all_of(results_.begin(), results_.end(),
                       [&](const Place& place) { return place.ends.size() >= count; });
  };
  while (!finished()) {
    if (changed_) share();
    const double time = next_event();
    FOURFOLD_CHECK(time < kNever, "the schedules stand still for ever");
    advance(time);
  }
}

double Simulation::next_event() const {
  double time = kNever;
  for (const Stream& stream : streams_) {
    if (stream.computing) time = std::min(time, stream.end);
  }
  for (const std::size_t channel : running_) time = std::min(time, lines_[channel].end);
  return time;
}

void Simulation::advance(double time) {
  now_ = time;
  ended_.clear();
  for (const std::size_t channel : running_) {
    if (lines_[channel].end <= now_) ended_.push_back(channel);
  }
  for (const std::size_t channel : ended_) {
    if (lines_[channel].sending || lines_[channel].left <= 0) {
      finish(channel);
    } else {
      transfer(channel);
    }
  }
  for (std::size_t place = 0; place < streams_.size(); ++place) {
    Stream& stream = streams_[place];
    if (!stream.computing || stream.end > now_) continue;
    stream.computing = false;
    if (record_) {
      results_[place].stretches.back().push_back(
          {.step = program_.places[place][stream.at].step, .begin = stream.since, .end = now_});
    }
    ++stream.at;
    proceed(place);
  }
}

/// Does everything that takes no time, until the place computes, waits or has come to its end.
void Simulation::proceed(std::size_t place) {
  Stream& stream = streams_[place];
  const std::vector<Instruction>& instructions = program_.places[place];
  Place& result = results_[place];
  while (result.ends.size() < most_steps_) {
    if (result.exposed.size() == result.ends.size()) {
      result.exposed.emplace_back(lines_.size(), 0.0);
      result.stretches.emplace_back();
    }
    if (stream.at == instructions.size()) {
      result.ends.push_back(now_);
      stream.at = 0;
      continue;
    }
    const Instruction& instruction = instructions[stream.at];
    if (instruction.kind == Instruction::Kind::kIssue) {
      ++stream.at;
      issue(place, instruction.channel);
    } else if (instruction.kind == Instruction::Kind::kCompute) {
      begin_compute(place, instruction.seconds);
      return;
    } else if (satisfied(instruction, place)) {
      ++stream.at;
    } else {
      stream.waiting = true;
      stream.since = now_;
      ++lines_[instruction.channel].waiters;
      changed_ = changed_ || priorities_;
      return;
    }
  }
}

bool Simulation::satisfied(const Instruction& wait, std::size_t place) const {
  std::size_t step = results_[place].ends.size();
  if (wait.previous) {
    if (step == 0) return true;
    --step;
  }
  const std::size_t operations = program_.channels[wait.channel].issues.size();
  return lines_[wait.channel].done > step * operations + wait.position;
}

void Simulation::begin_compute(std::size_t place, double seconds) {
  Stream& stream = streams_[place];
  stream.computing = true;
  stream.left = seconds;
  stream.since = now_;
  stream.settled = now_;
  stream.end = now_ + seconds * (stream.busy > 0 ? slowdown_ : 1);
}

void Simulation::end_wait(std::size_t place) {
  Stream& stream = streams_[place];
  const Instruction& wait = program_.places[place][stream.at];
  stream.waiting = false;
  --lines_[wait.channel].waiters;
  changed_ = changed_ || priorities_;
  results_[place].exposed.back()[wait.channel] += now_ - stream.since;
  if (record_) {
    results_[place].stretches.back().push_back(
        {.kind = Instruction::Kind::kWait,
         .step = wait.step,
         .operation = program_.channels[wait.channel].issues[wait.position],
         .begin = stream.since,
         .end = now_});
  }
  ++stream.at;
  proceed(place);
}

void Simulation::issue(std::size_t place, std::size_t channel) {
  const std::vector<std::size_t>& places = program_.channels[channel].places;
  const auto index =
      static_cast<std::size_t>(std::find(places.begin(), places.end(), place) - places.begin());
  ++lines_[channel].issued[index];
  if (record_) lines_[channel].issued_at[index].push_back(now_);
  start(channel, false);
}

/// Begins the next operation of the channel if all of its places have issued it. `follows`: it was
/// issued while the one before was under way.
void Simulation::start(std::size_t channel, bool follows) {
  Line& line = lines_[channel];
  if (line.running) return;
  for (const std::size_t issued : line.issued) {
    if (issued <= line.done) return;
  }
  const OperationTime& time = time_of(channel);
  line.running = true;
  line.sending = false;
  line.began = now_;
  line.left = time.transfer.value();
  line.end = now_ + (follows ? time.latency - time.fill : time.latency).value();
  running_.push_back(channel);
  set_busy(program_.channels[channel], 1);
}

void Simulation::transfer(std::size_t channel) {
  Line& line = lines_[channel];
  line.sending = true;
  line.settled = now_;
  list_uses(line.flow.uses, program_.channels[channel], time_of(channel));
  line.flow.speed = 1;
  line.end = now_ + line.left;
  changed_ = true;
}

void Simulation::finish(std::size_t channel) {
  Line& line = lines_[channel];
  const Channel& shape = program_.channels[channel];
  if (record_) {
    for (std::size_t i = 0; i < shape.places.size(); ++i) {
      results_[shape.places[i]].operations.push_back({.kind = Instruction::Kind::kIssue,
                                                      .operation = &operation_of(channel),
                                                      .issued = line.issued_at[i][line.done],
                                                      .begin = line.began,
                                                      .end = now_});
    }
  }
  changed_ = changed_ || line.sending;
  line.running = false;
  ++line.done;
  std::erase(running_, channel);
  set_busy(shape, -1);
  start(channel, true);
  for (const std::size_t place : shape.places) {
    const Stream& stream = streams_[place];
    if (!stream.waiting) continue;
    const Instruction& wait = program_.places[place][stream.at];
    if (wait.channel == channel && satisfied(wait, place)) end_wait(place);
  }
}

/// Compute under way goes on at another speed if an operation is the first or was the last.
void Simulation::set_busy(const Channel& channel, int change) {
  for (const std::size_t place : channel.places) {
    Stream& stream = streams_[place];
    const double before = stream.busy > 0 ? slowdown_ : 1;
    stream.busy += change;
    const double after = stream.busy > 0 ? slowdown_ : 1;
    if (!stream.computing || before == after) continue;
    stream.left -= (now_ - stream.settled) / before;
    stream.settled = now_;
    stream.end = now_ + stream.left * after;
  }
}

/// Gives every operation that is sending its part of the links, from now on.
void Simulation::share() {
  changed_ = false;
  flows_.clear();
  for (const std::size_t channel : running_) {
    Line& line = lines_[channel];
    if (!line.sending) continue;
    line.left -= (now_ - line.settled) * line.flow.speed;
    line.settled = now_;
    line.flow.weight = weight_of(channel);
    flows_.push_back(&line.flow);
  }
  sharing_.share(flows_);
  for (const std::size_t channel : running_) {
    Line& line = lines_[channel];
    if (line.sending) line.end = now_ + std::max(line.left, 0.0) / line.flow.speed;
  }
}

/// Links are shared in proportion to what is on its way.
double Simulation::weight_of(std::size_t channel) const {
  const auto in_flight = static_cast<double>(time_of(channel).in_flight.value());
  if (!priorities_ || lines_[channel].waiters > 0) return in_flight;
  // While a place stands still for another operation, each of its other ones has one message.
  const schedule::Priority priority = operation_of(channel).collective.priority;
  const auto message =
      static_cast<double>(schedule::segments_of(priority, schedule::Reach::kNetwork).bytes.value());
  const std::vector<std::size_t>& places = program_.channels[channel].places;
  const bool yields = std::any_of(places.begin(), places.end(),
                                  [&](std::size_t place) { return streams_[place].waiting; });
  return yields ? std::min(in_flight, message) : in_flight;
}

const OperationTime& Simulation::time_of(std::size_t channel) const {
  const Channel& shape = program_.channels[channel];
  return shape.times[lines_[channel].done % shape.times.size()];
}

const schedule::Issue& Simulation::operation_of(std::size_t channel) const {
  const Channel& shape = program_.channels[channel];
  return *shape.issues[lines_[channel].done % shape.issues.size()];
}

}  // namespace fourfold::plan
