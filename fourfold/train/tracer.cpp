// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/tracer.hpp"

#include <cstring>

#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/clock.hpp"

namespace fourfold::train {

using comm::Span;
using nlohmann::json;
using report::RankTrace;
using tensor::Mesh;

namespace {

/// The rank's place on the grid, without axes of one rank.
std::string place_of(const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const grid::Axis axis : grid::kAllAxes) {
    if (mesh.grid().size(axis) > 1) parts.push_back(concat(axis, "=", mesh.coord()[axis]));
  }
  return join(parts, " ");
}

/// The trace of this rank, with times on the clock of rank 0.
RankTrace own_trace(const Mesh& mesh, const comm::Timeline& timeline, Seconds offset) {
  RankTrace trace;
  trace.rank = mesh.world().rank();
  trace.host = mesh.world().host(trace.rank);
  trace.place = place_of(mesh);
  trace.steps = timeline.steps();
  trace.spans = timeline.spans();
  for (comm::Timeline::Step& step : trace.steps) {
    step.begin += offset;
    step.end += offset;
  }
  for (Span& span : trace.spans) {
    span.begin += offset;
    span.end += offset;
    if (span.issued > Seconds()) span.issued += offset;
    if (span.lane >= 0) trace.lanes[span.lane] = mesh.lane_name(span.lane);
  }
  return trace;
}

/// Bytes packed in words that a communicator can send. The first word is the number of bytes.
using Words = std::vector<std::int64_t>;

template <class Enum>
json packed_optional(const std::optional<Enum>& value) {
  return value ? json(static_cast<int>(*value)) : json();
}

template <class Enum>
std::optional<Enum> unpacked_optional(const json& value) {
  if (value.is_null()) return std::nullopt;
  return static_cast<Enum>(value.get<int>());
}

Words packed(const RankTrace& trace) {
  json steps = json::array();
  for (const comm::Timeline::Step& step : trace.steps) {
    steps.push_back({step.number, step.begin.value(), step.end.value()});
  }
  json spans = json::array();
  for (const Span& s : trace.spans) {
    spans.push_back({static_cast<int>(s.kind), s.name, s.layer, s.axes, s.lane, s.flops.value(),
                     s.bytes.value(), s.step, s.issued.value(), s.begin.value(), s.end.value(),
                     packed_optional(s.work), packed_optional(s.phase)});
  }
  json lanes = json::array();
  for (const auto& [lane, name] : trace.lanes) lanes.push_back({lane, name});
  const std::vector<std::uint8_t> bytes =
      json::to_cbor({trace.rank, trace.host, trace.place, lanes, steps, spans});
  Words words(1 + (bytes.size() + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
  words[0] = static_cast<std::int64_t>(bytes.size());
  std::memcpy(words.data() + 1, bytes.data(), bytes.size());
  return words;
}

RankTrace unpacked(const Words& words) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data() + 1);
  const json all = json::from_cbor(bytes, bytes + words[0]);
  RankTrace trace;
  trace.rank = all[0];
  trace.host = all[1];
  trace.place = all[2];
  for (const json& lane : all[3]) trace.lanes[lane[0].get<int>()] = lane[1].get<std::string>();
  for (const json& step : all[4]) {
    trace.steps.push_back({step[0], Seconds(step[1]), Seconds(step[2])});
  }
  for (const json& s : all[5]) {
    trace.spans.push_back({.kind = static_cast<Span::Kind>(s[0].get<int>()),
                           .name = s[1],
                           .layer = s[2],
                           .axes = s[3],
                           .lane = s[4],
                           .work = unpacked_optional<schedule::Work>(s[11]),
                           .phase = unpacked_optional<schedule::Phase>(s[12]),
                           .flops = Flops(s[5]),
                           .bytes = Bytes(s[6]),
                           .step = s[7],
                           .issued = Seconds(s[8]),
                           .begin = Seconds(s[9]),
                           .end = Seconds(s[10])});
  }
  return trace;
}

}  // namespace

void Tracer::begin_step(std::int64_t number) {
  if (number == steps_.first) observation_ = mesh_->world().observe(timeline_);
  if (!steps_.contain(number)) return;
  mesh_->world().resolve();  // what the device does late belongs to the step before
  timeline_.begin_step(number);
}

void Tracer::end_step(std::int64_t number) {
  if (!steps_.contain(number)) return;
  mesh_->world().resolve();  // or the times of the device would come too late
  timeline_.end_step();
}

std::vector<RankTrace> Tracer::collect() {
  observation_.stop();
  const Seconds offset = comm::clock_offset(mesh_->everyone());
  const RankTrace own = own_trace(*mesh_, timeline_, offset);
  const comm::Communicator& everyone = mesh_->everyone();
  if (everyone.size() == 1) return {own};
  const Words words = packed(own);
  Words sizes(static_cast<std::size_t>(everyone.size()));
  const Words size = {static_cast<std::int64_t>(words.size())};
  everyone.all_gather(comm::view(size), comm::view(sizes)).wait();
  if (everyone.rank() != 0) {
    everyone.send(comm::view(words), 0).wait();
    return {};
  }
  std::vector<RankTrace> traces = {own};
  for (int rank = 1; rank < everyone.size(); ++rank) {
    Words theirs(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]));
    everyone.recv(comm::view(theirs), rank).wait();
    traces.push_back(unpacked(theirs));
  }
  return traces;
}

}  // namespace fourfold::train
