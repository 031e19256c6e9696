// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/flight_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/flight_file.hpp"

namespace fourfold::comm {

namespace {

/// A text of a file: printable letters only, up to its end.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& from) {
  std::string text(from.begin(), std::find(from.begin(), from.end(), '\0'));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

double time_of(double time) {
  return std::isfinite(time) && time > 0 ? time : 0;
}

bool is_possible(const FlightFile::Operation& operation) {
  return operation.number >= 0 && operation.in_lane >= 0 && operation.count >= 0 &&
         operation.op <= static_cast<std::uint8_t>(schedule::Op::kBarrier) &&
         operation.dtype <= static_cast<std::uint8_t>(schedule::DType::kI64);
}

FlightOperation operation_of(const FlightFile::Operation& from) {
  return {.number = from.number,
          .in_lane = from.in_lane,
          .lane = from.lane,
          .op = static_cast<schedule::Op>(from.op),
          .dtype = static_cast<schedule::DType>(from.dtype),
          .count = from.count,
          .root = from.root,
          .layer = text_of(from.layer),
          .issued = time_of(from.issued),
          .ended = time_of(from.ended),
          .waited = time_of(from.waited)};
}

FlightLane lane_of(const FlightFile::Lane& from) {
  FlightLane lane{from.number, text_of(from.axes), {}, std::max(0, from.size)};
  const auto known =
      std::min<std::size_t>(static_cast<std::size_t>(lane.size), from.members.size());
  lane.members.assign(from.members.begin(),
                      from.members.begin() + static_cast<std::ptrdiff_t>(known));
  return lane;
}

}  // namespace

FlightLog read_flight_log(const std::filesystem::path& path) {
  const auto file = std::make_unique<FlightFile>();
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(file.get()), sizeof(FlightFile));
  if (!in || file->magic != kFlightMagic) {
    throw ConfigError(concat(path.string(), " is not the log of a rank"));
  }
  FlightLog log{.rank = file->rank,
                .ranks = std::clamp(file->ranks, 1, 1 << 20),
                .host = text_of(file->host),
                .step = file->step,
                .seen = time_of(file->seen),
                .doing = text_of(file->doing),
                .left = file->left == 1,
                .silent = {},
                .waiting_for = file->waiting_for,
                .lanes = {},
                .operations = {}};
  std::copy_if(file->silent.begin(), file->silent.end(), std::back_inserter(log.silent),
               [&](int rank) { return rank >= 0 && rank < log.ranks; });
  const auto used = static_cast<std::size_t>(
      std::clamp<std::int32_t>(file->lanes_used, 0, static_cast<std::int32_t>(file->lanes.size())));
  for (std::size_t i = 0; i < used; ++i) log.lanes.push_back(lane_of(file->lanes[i]));
  for (const FlightFile::Operation& operation : file->operations) {
    if (is_possible(operation)) log.operations.push_back(operation_of(operation));
  }
  std::sort(log.operations.begin(), log.operations.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return log;
}

std::string flight_file(int rank) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "rank-%05d.flight", rank);
  return name.data();
}

}  // namespace fourfold::comm
