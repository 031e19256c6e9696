// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/operation_time.hpp"

#include <algorithm>
#include <optional>

#include "fourfold/base/check.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::plan {

namespace {

using cluster::Cluster;
using cluster::GroupShape;
using cluster::Link;
using schedule::Algorithm;
using schedule::Collective;
using schedule::Op;

double bytes_of(const Collective& c) {
  return static_cast<double>(c.payload().value());
}

/// The largest of the p chunks of the tensor: in every step of a ring some rank sends it.
double largest_chunk(const Collective& c, int p) {
  const std::int64_t elements = (c.count + p - 1) / p;
  return static_cast<double>(elements * schedule::size_of(c.dtype));
}

OperationTime made(const Link& link, double latency, double transfer) {
  return {.latency = Seconds(latency),
          .transfer = Seconds(transfer),
          .inside_load = link.inside_load,
          .nic_load = link.nic_load};
}

/// One after the other. Loads are averaged over the transfer.
OperationTime then(const OperationTime& a, const OperationTime& b) {
  const Seconds transfer = a.transfer + b.transfer;
  const double part = transfer > Seconds() ? a.transfer / transfer : 1;
  return {.latency = a.latency + b.latency,
          .transfer = transfer,
          .inside_load = a.inside_load * part + b.inside_load * (1 - part),
          .nic_load = a.nic_load * part + b.nic_load * (1 - part),
          .in_flight = std::max(a.in_flight, b.in_flight)};
}

/// The same with so many bytes of each member on their way at a time.
OperationTime with_in_flight(OperationTime time, double bytes) {
  time.in_flight = Bytes(std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes)));
  return time;
}

/// The members on one host, and one member of each host.
GroupShape inner(const GroupShape& shape) {
  return {shape.per_host, shape.per_host, shape.siblings, shape.stride};
}
GroupShape outer(const GroupShape& shape) {
  return {shape.hosts(), 1, shape.siblings * shape.per_host, 1};
}

/// Our own algorithms, as schedule::algorithm_of chooses them.
class Own {
 public:
  Own(const GroupShape& shape, const Cluster& cluster)
      : p_(shape.members),
        reach_(shape.spans_hosts() ? schedule::Reach::kNetwork : schedule::Reach::kHost),
        ring_(cluster.link(shape)),
        scattered_(scattered(shape, cluster)) {}

  OperationTime time_of(const Collective& c) const {
    if (schedule::travels_in_f32(c, p_)) return time_of(schedule::in_f32(c), algorithm_of(c));
    return time_of(c, algorithm_of(c));
  }

 private:
  /// When all members send to members anywhere, each of them sends over the network at once. Of the
  /// p-1 others, p-k are on other hosts.
  static Link scattered(const GroupShape& shape, const Cluster& cluster) {
    if (!shape.spans_hosts()) return cluster.link(shape);
    Link link = cluster.link(outer(shape));
    const double crossing = double(shape.members - shape.per_host) / std::max(shape.members - 1, 1);
    link.bandwidth = link.bandwidth * (1 / crossing);
    return link;
  }

  Algorithm algorithm_of(const Collective& c) const { return schedule::algorithm_of(c, p_); }

  OperationTime time_of(const Collective& c, Algorithm algorithm) const {
    switch (algorithm) {
      case Algorithm::kNone:
        return {};
      case Algorithm::kRing:
        return ring(c, (p_ - 1) * (c.op == Op::kAllReduce ? 2 : 1));
      case Algorithm::kExchange:
        if (c.op == Op::kAllReduce) return then(exchange(c), ring(c, p_ - 1));
        return c.op == Op::kReduce ? then(exchange(c), exchange(c)) : exchange(c);
      case Algorithm::kDirect:
        return rounds(1, (p_ - 1) * bytes_of(c), bytes_of(c));
      case Algorithm::kDoubling:
        return doubling(c);
      case Algorithm::kCirculant:
        return circulant(c);
      case Algorithm::kTree:
        return tree(c);
      case Algorithm::kChain:
        return chain(c);
      case Algorithm::kPair:
        return with_in_flight(made(ring_, ring_.latency_of(bytes_of(c)).value(),
                                   bytes_of(c) / ring_.bandwidth.value()),
                              in_window(c));
      case Algorithm::kRounds:
        return rounds(schedule::rounds_of(p_), 0, 0);
    }
    throw InvariantError("no such algorithm");
  }

  /// Steps in which each rank sends a chunk to the next. A chunk goes in rounds of up to `window`
  /// segments. The next rank forwards a segment when it has arrived, so a step of a round takes as
  /// long as its bytes, or as one segment and the latency if that is longer.
  OperationTime ring(const Collective& c, int steps) const {
    const schedule::Segments segments = schedule::segments_of(c.priority, reach_);
    const auto segment = static_cast<double>(segments.bytes.value());
    const double bandwidth = ring_.bandwidth.value();
    const double chunk = largest_chunk(c, p_);
    const double latency = ring_.latency_of(std::min(chunk, segment)).value();
    const double whole = segment * segments.window;
    const auto step = [&](double bytes) {
      return std::max(bytes / bandwidth, latency + std::min(bytes, segment) / bandwidth);
    };
    const auto full = static_cast<double>(static_cast<std::int64_t>(chunk / whole));
    const double rest = chunk - full * whole;
    const double time = full * step(whole) + (rest > 0 ? step(rest) : 0);
    const double transfer = steps * chunk / bandwidth;
    return with_in_flight(made(ring_, std::max(steps * time - transfer, latency), transfer),
                          std::min(chunk, whole));
  }

  /// Rounds in which all ranks send to different ranks, with so many bytes together, in messages of
  /// so many.
  OperationTime rounds(int count, double bytes, double message) const {
    const double latency = scattered_.farthest_latency_of(message).value();
    return with_in_flight(made(scattered_, count * latency, bytes / scattered_.bandwidth.value()),
                          bytes / count);
  }

  OperationTime exchange(const Collective& c) const {
    return rounds(1, (p_ - 1) * largest_chunk(c, p_), largest_chunk(c, p_));
  }

  OperationTime doubling(const Collective& c) const {
    const int core = schedule::doubling_place(p_, 0).core;
    const int steps = schedule::rounds_of(core) + (p_ > core ? 2 : 0);
    return rounds(steps, steps * bytes_of(c), bytes_of(c));
  }

  OperationTime circulant(const Collective& c) const {
    if (c.op == Op::kAllReduce) {
      Collective part = c;
      part.op = Op::kReduceScatter;
      const OperationTime scatter = time_of(part);
      part.op = Op::kAllGather;
      return then(scatter, time_of(part));
    }
    const int count = schedule::rounds_of(p_);
    const double bytes = (p_ - 1) * largest_chunk(c, p_);
    return rounds(count, bytes, bytes / count);
  }

  /// What a member that sends the whole tensor has on its way.
  double in_window(const Collective& c) const {
    const schedule::Segments segments = schedule::segments_of(c.priority, reach_);
    return std::min(bytes_of(c), static_cast<double>(segments.bytes.value()) * segments.window);
  }

  /// The way from or to a root, which takes so long until the last member is done. All members but
  /// one send the tensor once.
  OperationTime from_root(const Collective& c, double first_hop, double total) const {
    const double transfer = bytes_of(c) / ring_.bandwidth.value() * (p_ - 1) / p_;
    OperationTime time = with_in_flight(made(ring_, total - transfer, transfer), in_window(c));
    time.fill = Seconds(std::max(0.0, total - transfer - first_hop));
    return time;
  }

  OperationTime tree(const Collective& c) const {
    const double hop = ring_.farthest_latency_of(bytes_of(c)).value();
    return from_root(c, hop,
                     schedule::rounds_of(p_) * (hop + bytes_of(c) / ring_.bandwidth.value()));
  }

  OperationTime chain(const Collective& c) const {
    const schedule::Segments segments = schedule::segments_of(c.priority, reach_);
    const double segment = std::min(static_cast<double>(segments.bytes.value()), bytes_of(c));
    const double bandwidth = ring_.bandwidth.value();
    const double hop = ring_.latency_of(segment).value();
    return from_root(c, hop, (p_ - 1) * hop + ((p_ - 2) * segment + bytes_of(c)) / bandwidth);
  }

  int p_;
  schedule::Reach reach_;
  Link ring_;       // each member sends to the next
  Link scattered_;  // all members send to members anywhere
};

/// What NCCL and RCCL do, as far as their own tuning models it.
class Nccl {
 public:
  Nccl(const GroupShape& shape, const Cluster& cluster)
      : shape_(shape), cluster_(cluster), link_(cluster.link(shape)) {}

  OperationTime time_of(const Collective& c) const {
    OperationTime time = fastest(c);
    time.latency += cluster_.device.kernel_start;
    return time;
  }

 private:
  OperationTime fastest(const Collective& c) const {
    if (shape_.members == 1) return {};
    std::optional<OperationTime> best;
    for (const cluster::NcclAlgorithm algorithm : cluster_.network.algorithms) {
      const auto time = time_of(c, algorithm);
      if (time && (!best || time->total() < best->total())) best = time;
    }
    return best ? *best : ring(c, link_, shape_.members);
  }

  std::optional<OperationTime> time_of(const Collective& c,
                                       cluster::NcclAlgorithm algorithm) const {
    switch (algorithm) {
      case cluster::NcclAlgorithm::kRing:
        return ring(c, link_, shape_.members);
      case cluster::NcclAlgorithm::kTree:
        if (c.op != Op::kAllReduce && c.op != Op::kBarrier) return std::nullopt;
        return tree(c);
      case cluster::NcclAlgorithm::kTwoLevel:
        return two_level(c);
    }
    throw InvariantError("no such algorithm");
  }

  static OperationTime ring(const Collective& c, const Link& link, int p) {
    const double hop = link.latency.value();
    const double whole = bytes_of(c) / link.bandwidth.value();
    switch (c.op) {
      case Op::kAllReduce:
      case Op::kBarrier:
        return made(link, 2 * (p - 1) * hop, whole * 2 * (p - 1) / p);
      case Op::kAllGather:
      case Op::kReduceScatter:
        return made(link, (p - 1) * hop, whole * (p - 1) / p);
      case Op::kBroadcast:
      case Op::kReduce:
        return made(link, (p - 1) * hop, whole);
      case Op::kSend:
      case Op::kRecv:
        return made(link, hop, whole);
    }
    throw InvariantError("no such operation");
  }

  /// Chains inside hosts and a double binary tree between them, up and down.
  OperationTime tree(const Collective& c) const {
    const cluster::Network& network = cluster_.network;
    const double up = (shape_.per_host - 1) * network.inside_latency.value() +
                      schedule::rounds_of(shape_.hosts()) * network.nic_latency.value();
    return made(link_, 2 * up, 2 * bytes_of(c) / link_.bandwidth.value());
  }

  /// Rings inside hosts and rings between hosts, of the members with the same place on their hosts.
  std::optional<OperationTime> two_level(const Collective& c) const {
    if (!shape_.spans_hosts() || shape_.per_host == 1) return std::nullopt;
    Collective inside = c;
    Collective between = c;  // of each member's part
    between.count = (c.count + shape_.per_host - 1) / shape_.per_host;
    const Link inner_link = cluster_.link(inner(shape_));
    const Link outer_link = cluster_.link(outer(shape_));
    if (c.op == Op::kAllReduce) inside.op = Op::kReduceScatter;
    const OperationTime in = ring(inside, inner_link, shape_.per_host);
    const OperationTime out = ring(between, outer_link, shape_.hosts());
    switch (c.op) {
      case Op::kAllReduce:
        return then(then(in, out), in);
      case Op::kAllGather:
      case Op::kReduceScatter:
        return then(in, out);
      default:
        return std::nullopt;
    }
  }

  const GroupShape& shape_;
  const Cluster& cluster_;
  Link link_;
};

}  // namespace

OperationTime time_of(const Collective& collective, const GroupShape& shape,
                      const Cluster& cluster) {
  if (cluster.network.library == cluster::Library::kFourfold) {
    return Own(shape, cluster).time_of(collective);
  }
  return Nccl(shape, cluster).time_of(collective);
}

}  // namespace fourfold::plan
