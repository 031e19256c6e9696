// Runs a piece of a test in both ways of a choice by processor, as far as this processor can.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "fourfold/base/processor.hpp"

namespace fourfold::test {

/// Calls body(whether the way with special instructions is taken).
template <class Body>
void both_ways(Choice choice, const Body& body) {
  for (const bool special : {false, true}) {
    if (special && !can_take_special_way(choice)) continue;
    const ForcedChoice forced(choice, special);
    SCOPED_TRACE(describe(choice).name + ": " + describe(choice).way);
    body(special);
  }
}

}  // namespace fourfold::test
