// The bytes of a flight recorder's file. Every number in it may be garbage where the process died.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace fourfold::comm {

inline constexpr std::uint64_t kFlightMagic = 0x32544847494c4646;  // "FFLIGHT2"

struct FlightFile {
  struct Operation {
    std::int64_t number;
    std::int64_t in_lane;
    std::int64_t count;
    std::int32_t lane;
    std::int32_t root;
    std::uint8_t op;
    std::uint8_t dtype;
    std::array<char, 38> layer;
    double issued;
    double ended;
    double waited;
  };
  struct Lane {
    std::int32_t number;
    std::int32_t size;
    std::array<std::int32_t, 64> members;
    std::array<char, 24> axes;
  };

  std::uint64_t magic;
  std::int32_t rank;
  std::int32_t ranks;
  std::array<char, 64> host;
  std::int64_t step;
  std::int64_t waiting_for;
  double seen;
  std::array<char, 64> doing;
  std::int32_t lanes_used;
  std::int32_t left;                   // 1: the rank has ended by itself
  std::array<std::int32_t, 8> silent;  // ranks that did not answer this one; -1: none
  std::array<Lane, 128> lanes;
  std::array<Operation, 4096> operations;
};

}  // namespace fourfold::comm
