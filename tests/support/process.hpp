// Runs a program and keeps what it said: for tests of what a user sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "fourfold/base/units.hpp"

namespace fourfold::test {

struct Outcome {
  int status = 0;  ///< exit status; 128 + n when killed by signal n
  std::string out;
  std::string err;
  Seconds seconds;
};

/// Runs `command` with extra environment variables ("NAME=value") and returns when it has ended.
/// `meanwhile`, if given, is called with the process number once it runs.
Outcome run_program(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment = {},
                    const std::function<void(pid_t)>& meanwhile = nullptr);

/// Running processes with `word` among their arguments, zombies left out.
std::vector<pid_t> processes_with_argument(const std::string& word);

/// The lines of a text.
std::vector<std::string> lines(const std::string& text);

}  // namespace fourfold::test
