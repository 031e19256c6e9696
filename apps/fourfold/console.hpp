// Lines for the user: those that stay, and one that is replaced as work goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/train/run.hpp"

namespace fourfold::app {

/// Whether a person watches: standard output is a terminal, also where a launcher passes it on.
bool on_terminal();

/// For the process that starts the ranks: tells them whether somebody watches.
void announce_terminal();

/// Prints to standard output; without a terminal `show` prints nothing.
train::Console make_console();

}  // namespace fourfold::app
