// Runs a piece of a test in every way of a choice by processor, as far as this processor can.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "fourfold/base/processor.hpp"

namespace fourfold::test {

/// Calls body(way); way 0 is the one without special instructions.
template <class Body>
void in_every_way(Choice choice, const Body& body) {
  for (int way = 0; way < ways_of(choice); ++way) {
    if (!can_take_way(choice, way)) continue;
    const ForcedChoice forced(choice, way);
    SCOPED_TRACE(describe(choice).name + ": " + describe(choice).way);
    body(way);
  }
}

}  // namespace fourfold::test
