// What a training step of a GPT communicates, written down by hand as in docs/communication.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "fourfold/comm/counters.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::test {

struct Calls {
  std::int64_t calls = 0;
  std::int64_t payload = 0;
  bool operator==(const Calls&) const = default;
};

/// By operation and axes.
using CallsBy = std::map<std::pair<schedule::Op, std::string>, Calls>;

/// Of one step: forward, backward, optimizer. Gathered weights are kept either not at all
/// (`overlap.keep_weights` off) or all of them; with a pipeline they are, and a rank has one chunk.
CallsBy closed_form(const grid::Grid& grid, const train::Recipe& recipe, int rank = 0);

/// The same from counters.
CallsBy counted(const comm::Counts& counts);

std::string to_string(const CallsBy& calls);

}  // namespace fourfold::test
