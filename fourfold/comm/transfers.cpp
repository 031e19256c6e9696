// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/transfers.hpp"

#include <utility>

namespace fourfold::comm {

namespace {

enum class Direction : std::uint8_t { kOut, kIn };

struct Transfer {
  Direction direction = Direction::kOut;
  int peer = 0;
  std::byte* data = nullptr;  // only read when it is sent
  std::int64_t count = 0;
};

/// Transfers blocks in order, cut into segments, with one window of segments in flight.
class Transfers final : public Operation {
 public:
  Transfers(const Cut& cut, const Port& port, std::vector<Transfer> transfers)
      : port_(port), cut_(cut), transfers_(std::move(transfers)), in_flight_(cut.window) {}

  bool advance() override {
    for (bool moved = true; moved;) {
      moved = post();
      for (; !in_flight_.empty() && port_.test(in_flight_.front().request); moved = true) {
        in_flight_.pop();
      }
    }
    return at_ == transfers_.size() && in_flight_.empty();
  }

  int awaited() const override { return in_flight_.empty() ? -1 : in_flight_.front().peer; }

 private:
  struct InFlight {
    Request request;
    int peer = 0;
  };

  bool post() {
    bool moved = false;
    for (; at_ < transfers_.size() && !in_flight_.full(); moved = true) {
      const Transfer& transfer = transfers_[at_];
      const schedule::Chunk segment = cut_.segment({0, transfer.count}, segment_++);
      if (segment.size() == 0) {
        ++at_;
        segment_ = 0;
        continue;
      }
      std::byte* data = transfer.data + segment.begin * cut_.element_size;
      const std::int64_t bytes = segment.size() * cut_.element_size;
      in_flight_.push({transfer.direction == Direction::kOut
                           ? port_.send(data, bytes, transfer.peer)
                           : port_.receive(data, bytes, transfer.peer),
                       transfer.peer});
    }
    return moved;
  }

  Port port_;
  Cut cut_;
  std::vector<Transfer> transfers_;
  std::size_t at_ = 0;
  std::int64_t segment_ = 0;  // the next segment of transfers_[at_]
  Window<InFlight> in_flight_;
};

class Barrier final : public Operation {
 public:
  explicit Barrier(const Port& port) : port_(port) {}

  bool advance() override {
    for (; distance_ < port_.size(); distance_ *= 2, posted_ = false) {
      if (!std::exchange(posted_, true)) {
        receive_ = port_.receive(nullptr, 0, port_.neighbour(-distance_));
        send_ = port_.send(nullptr, 0, port_.neighbour(distance_));
        received_ = sent_ = false;
      }
      received_ = received_ || port_.test(receive_);
      sent_ = sent_ || port_.test(send_);
      if (!received_ || !sent_) return false;
    }
    return true;
  }

  int awaited() const override {
    return distance_ < port_.size() ? port_.neighbour(received_ ? distance_ : -distance_) : -1;
  }

 private:
  Port port_;
  int distance_ = 1;
  bool posted_ = false;
  bool received_ = false;
  bool sent_ = false;
  Request receive_;
  Request send_;
};

std::byte* writable(const void* data) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data));
}

}  // namespace

OperationPtr make_send(const schedule::Collective& c, const void* in, const Port& port) {
  return std::make_unique<Transfers>(
      Cut(c, port.reach()), port,
      std::vector<Transfer>{{Direction::kOut, c.root, writable(in), c.count}});
}

OperationPtr make_receive(const schedule::Collective& c, void* out, const Port& port) {
  return std::make_unique<Transfers>(
      Cut(c, port.reach()), port,
      std::vector<Transfer>{{Direction::kIn, c.root, writable(out), c.count}});
}

OperationPtr make_gather(const schedule::Collective& c, const void* in, void* out,
                         const Port& port) {
  std::vector<Transfer> transfers;
  if (port.index() != c.root) {
    const auto chunk = schedule::chunk_of(c.count, port.size(), port.index());
    transfers.push_back({Direction::kOut, c.root, writable(in), chunk.size()});
  } else {
    for (int distance = 1; distance < port.size(); ++distance) {
      const int peer = port.neighbour(distance);
      const auto chunk = schedule::chunk_of(c.count, port.size(), peer);
      transfers.push_back({Direction::kIn, peer,
                           writable(out) + chunk.begin * schedule::size_of(c.dtype), chunk.size()});
    }
  }
  return std::make_unique<Transfers>(Cut(c, port.reach()), port, std::move(transfers));
}

OperationPtr make_barrier(const Port& port) {
  return std::make_unique<Barrier>(port);
}

}  // namespace fourfold::comm
