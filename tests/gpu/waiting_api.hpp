// The functions of CUDA and NCCL, but the host waits where compute does: for programs in which it
// is the host that makes the values and reads the results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/nccl/api.hpp"

namespace fourfold::test {

/// The stream on which the calling thread computes. The functions of `waiting_api` ask for it.
inline thread_local comm::nccl::Stream waiting_stream = nullptr;

/// Waits of the compute stream, and copies, which are all that the backend gives it, have happened
/// when their calls return. `api` must outlive the result; there is one at a time.
inline comm::nccl::Api waiting_api(const comm::nccl::Api& api) {
  using comm::nccl::Event;
  using comm::nccl::kSuccess;
  using comm::nccl::Stream;
  static const comm::nccl::Api* real = nullptr;
  real = &api;
  comm::nccl::Api made = api;
  made.stream_wait = [](Stream stream, Event event) {
    const int result = real->stream_wait(stream, event);
    return result == kSuccess && stream == waiting_stream ? real->event_synchronize(event) : result;
  };
  made.copy = [](void* to, const void* from, std::size_t bytes, Stream stream) {
    const int result = real->copy(to, from, bytes, stream);
    return result == kSuccess ? real->stream_synchronize(stream) : result;
  };
  return made;
}

}  // namespace fourfold::test
