// One round of an operation: this rank sends a block to one member while it receives a block from
// another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// Blocks are cut into segments, with one window of segments in flight in each direction. No
/// message is sent for an empty block.
class Round {
 public:
  struct Outgoing {
    const std::byte* data = nullptr;
    std::int64_t count = 0;  ///< elements
    int peer = 0;
  };
  struct Incoming {
    std::byte* data = nullptr;
    std::int64_t count = 0;
    int peer = 0;
  };

  Round(const schedule::Collective& collective, const Port& port)
      : port_(port), cut_(collective, port.reach()), sends_(cut_.window), receives_(cut_.window) {}

  /// Starts a round. The previous round must be done.
  void start(const Outgoing& out, const Incoming& in);

  /// These have the same meaning as in Operation.
  bool advance();
  int awaited() const;

 private:
  bool post_receives();
  bool post_sends();
  std::int64_t to_send() const { return cut_.segments(out_.count); }
  std::int64_t to_receive() const { return cut_.segments(in_.count); }

  Port port_;
  Cut cut_;
  Outgoing out_;
  Incoming in_;
  std::int64_t sent_ = 0;    // handed to the transport
  std::int64_t posted_ = 0;  // receives posted
  std::int64_t received_ = 0;
  Window<Request> sends_;
  Window<Request> receives_;
};

}  // namespace fourfold::comm
