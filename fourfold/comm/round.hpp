// One round of an operation: a block goes to one member while another comes from one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// Blocks are cut into segments, a window in flight each way. An empty block is no message.
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

  /// The one before is done.
  void start(const Outgoing& out, const Incoming& in);

  /// As an operation's.
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
  std::int64_t posted_ = 0;  // receives
  std::int64_t received_ = 0;
  Window<Request> sends_;
  Window<Request> receives_;
};

}  // namespace fourfold::comm
