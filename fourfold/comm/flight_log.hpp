// What a rank did last, in a file that survives the rank: its newest operations, and what it waits
// for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm {

/// An operation of a rank.
struct FlightOperation {
  std::int64_t number = -1;  ///< of all operations of the rank
  std::int64_t in_lane = 0;  ///< of those of its lane: the same on all members of the group
  int lane = 0;
  schedule::Op op = schedule::Op::kBarrier;
  schedule::DType dtype = schedule::DType::kF32;
  std::int64_t count = 0;
  int root = 0;  ///< the other end of a send or receive, as its index in the group
  std::string layer = {};
  double issued = 0;  ///< seconds since 1970, as all times here
  double ended = 0;   ///< 0: it has not
  double waited = 0;  ///< when compute began to wait for it; 0: it has not

  bool operator==(const FlightOperation&) const = default;
};

/// A group of ranks and its lane.
struct FlightLane {
  int number = 0;
  std::string axes = {};
  std::vector<int> members = {};  ///< the first ones of a large group
  int size = 0;

  bool operator==(const FlightLane&) const = default;
};

/// The log of a rank, as its file has it.
struct FlightLog {
  int rank = 0;
  int ranks = 1;
  std::string host = {};
  std::int64_t step = 0;   ///< of the training, that had begun last
  double seen = 0;         ///< when the rank did anything last
  std::string doing = {};  ///< other work that it had begun, such as "validating"
  bool left = false;  ///< whether the rank has ended by itself, if only because another one failed
  std::vector<int> silent = {};   ///< the ranks that did not answer when this one ended the job
  std::int64_t waiting_for = -1;  ///< the number of an operation; -1: the rank does not wait
  std::vector<FlightLane> lanes = {};
  std::vector<FlightOperation> operations = {};  ///< the newest, in the order of their numbers
};

/// Reads the file of a rank. Throws ConfigError that names it when it is not such a file. What is
/// damaged in it is left out.
FlightLog read_flight_log(const std::filesystem::path& path);

/// "rank-00003.flight".
std::string flight_file(int rank);

}  // namespace fourfold::comm
