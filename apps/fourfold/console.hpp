// Lines for the user: lines that stay, and one that is replaced as work goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/train/run.hpp"

namespace fourfold::app {

/// Whether a person is watching: standard output is a terminal, also where a launcher forwards it.
bool on_terminal();

/// For the process that starts the ranks: tells them whether a person is watching.
void announce_terminal();

/// Prints to standard output. Without a terminal `show` prints nothing.
train::Console make_console();

}  // namespace fourfold::app
