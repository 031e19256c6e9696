// The request to save and stop: SIGTERM, which batch systems send before they end a job, or
// SIGUSR1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fourfold::launch {

/// From now on these signals no longer end the process, but are remembered.
void catch_stop_signals();

/// Whether one of them has arrived.
bool stop_requested();

/// The exit status of a program that has saved its state and stopped on request.
inline constexpr int kStoppedStatus = 3;

}  // namespace fourfold::launch
