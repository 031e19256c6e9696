// Starts the ranks of a job on this machine, for `fourfold ... --ranks N`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace fourfold::launch {

struct Job {
  int ranks = 1;
  std::vector<std::string> command;  ///< the program and its arguments, for every rank
  /// Receives one line about a rank that died without a message of its own.
  std::function<void(const std::string&)> report;
  /// Whether the ranks save and stop on SIGUSR1 (stop_signal.hpp). Then they get it for the first
  /// SIGTERM or SIGUSR1 of this process, as soon as all of them catch it, and a second SIGTERM ends
  /// them. A process asks once: in the jobs that it runs after that, the first SIGTERM ends them.
  bool stops_gently = false;
};

/// Runs the job under mpirun and returns when no process of it is left. Returns 0 when all ranks
/// returned 0, the status of the first rank that did not, 1 when a rank was killed, or 128 + n when
/// this process received signal n, which it passes on, unless the ranks have stopped gently. The
/// standard error of the ranks is forwarded, without mpirun's own remarks. Throws ConfigError,
/// before anything is started, when the job cannot be started.
int run(const Job& job);

/// Whether a signal has asked the ranks of any job of this process to save and stop.
bool stop_was_asked();

/// The cores that this process may use.
int usable_cores();

}  // namespace fourfold::launch
