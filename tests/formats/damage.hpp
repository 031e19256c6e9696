// Damages files at random, but always in the same way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

namespace fourfold::test {

/// What may happen to bytes: bits and whole bytes change, pieces are lost, doubled and appended.
inline std::string damaged_bytes(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::size_t times = 1 + below(3);
  for (std::size_t i = 0; i < times && !bytes.empty(); ++i) {
    const std::size_t at = below(bytes.size());
    const std::size_t count = std::min(1 + below(12), bytes.size() - at);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), count));
        break;
      case 4:
        bytes.erase(at, count);
        break;
      default:
        bytes.append(count, static_cast<char>(below(256)));
    }
  }
  return bytes;
}

struct Outcomes {
  int refused = 0;
  int accepted = 0;
};

/// Calls `body` with `count` damaged versions of `bytes`; it may throw ConfigError of one line and
/// nothing else.
inline Outcomes damage_often(const std::string& bytes, int count, unsigned seed,
                             const std::function<void(const std::string&)>& body) {
  std::mt19937 random(seed);
  Outcomes outcomes;
  for (int i = 0; i < count; ++i) {
    const std::string bad = damaged_bytes(bytes, random);
    try {
      body(bad);
      ++outcomes.accepted;
    } catch (const ConfigError& error) {
      ++outcomes.refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "damage " << i << ": " << error.what();
    }
  }
  return outcomes;
}

}  // namespace fourfold::test
