// How the program was started, for the reports of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"
#include "fourfold/train/run_facts.hpp"

namespace fourfold::app {

/// For the process that starts the ranks: tells them its command line.
void announce_command(char** argv);

/// The command line that a user can type again: that of the process that started the ranks, if it
/// is known.
std::string command_line(char** argv);

/// The versions of the program and of the libraries that it computes and communicates with.
train::Facts versions();

/// "8 ranks share 2 cores: ..." where this host has more ranks than cores, as far as a rank can
/// tell; else an empty text. Ranks that emulate a slower device are meant to share cores. Call it
/// before the rank binds itself to its cores.
std::string crowding(const config::DeviceConfig& device);

}  // namespace fourfold::app
