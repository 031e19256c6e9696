// A cluster as a value: what its devices compute and what its links carry. It is read from a file
// (load.hpp) and written by a calibration (write.hpp). docs/cluster-files.md describes the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/group_shape.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::cluster {

/// The share of the peak rate that a product reaches whose smallest extent is `side`.
struct ProductPoint {
  std::int64_t side = 1;
  double efficiency = 1;

  bool operator==(const ProductPoint&) const = default;
};

/// [device]: one GPU, or one rank of a cluster without GPUs.
struct Device {
  std::string name;
  Bytes memory;
  double usable_memory = 1;         ///< the share of `memory` that training can use
  BytesPerSecond memory_bandwidth;  ///< peak
  double usable_bandwidth = 1;      ///< the share of it that large kernels reach
  FlopsPerSecond bf16;              ///< peak rates of products by type
  FlopsPerSecond f32;
  FlopsPerSecond f64;
  std::vector<ProductPoint> product_efficiency;  ///< by increasing side; at least one
  double attention_efficiency = 1;               ///< the share of the peak rate
  Seconds kernel_start;                          ///< a fixed time of every stretch of compute
  double slowdown = 1;  ///< compute takes this many times as long while communication is under way

  FlopsPerSecond peak(schedule::DType dtype) const;
  /// Linear in the logarithm of the smallest extent between the points, constant beyond them.
  double efficiency_of_product(std::int64_t m, std::int64_t k, std::int64_t n) const;
  /// What training can use.
  Bytes usable() const;

  bool operator==(const Device&) const = default;
};

/// The library that communicates, which decides about the algorithms.
enum class Library : std::uint8_t {
  kFourfold,  ///< our own, by schedule::algorithm_of
  kNccl       ///< NCCL or RCCL: the fastest of `Network::algorithms`
};

/// An algorithm that NCCL may use.
enum class NcclAlgorithm : std::uint8_t {
  kRing,
  kTree,     ///< all_reduce only
  kTwoLevel  ///< first inside hosts, then between hosts, or the other way round
};

/// How the devices of a host are connected.
enum class Topology : std::uint8_t {
  kMesh,   ///< a link between each two: a group of k has k-1 of a device's links
  kSwitch  ///< each device has one port, which any group can use in full
};

std::string_view to_string(Library library);          ///< "fourfold", "nccl"
std::string_view to_string(NcclAlgorithm algorithm);  ///< "ring", "tree", "two-level"
std::string_view to_string(Topology topology);        ///< "mesh", "switch"

/// A group that was measured while all its siblings communicated too.
struct MeasuredGroup {
  GroupShape shape;
  Seconds latency;           ///< of one step of a ring with a short message
  BytesPerSecond bandwidth;  ///< that each member sends with
  /// The same with a long message; what passes before it flows at full bandwidth.
  std::optional<Seconds> long_latency{};

  bool operator==(const MeasuredGroup&) const = default;
};

/// [network]: links inside a host and between hosts. Bandwidths are those of one direction.
struct Network {
  Library library = Library::kNccl;
  std::vector<NcclAlgorithm> algorithms = {NcclAlgorithm::kRing, NcclAlgorithm::kTree};
  Topology topology = Topology::kSwitch;
  BytesPerSecond inside_bandwidth;  ///< of all links of a device to others of its host together
  double inside_usable = 1;         ///< the share of it that collectives reach
  Seconds inside_latency;
  int nics = 1;  ///< of a host
  BytesPerSecond nic_bandwidth;
  double nic_usable = 1;
  Seconds nic_latency;
  std::vector<MeasuredGroup> measured;  ///< no shape twice

  /// What all links of a device to others of its host carry together, and all NICs of a host.
  BytesPerSecond inside() const { return inside_bandwidth * inside_usable; }
  BytesPerSecond between() const { return nic_bandwidth * (nic_usable * nics); }

  bool operator==(const Network&) const = default;
};

/// What an operation of a group gets when nothing but its siblings communicates, and how much of
/// each shared resource it then uses. Operations that are under way at once share these resources.
struct Link {
  Seconds latency;           ///< of one step, on average over the edges of a ring of the group
  Seconds long_latency;      ///< the same for long messages
  Seconds farthest_latency;  ///< of one step between the members that are farthest apart
  BytesPerSecond bandwidth;  ///< that each member sends with, around a ring
  double inside_load = 0;    ///< the share of the links inside the host, from 0 to 1
  double nic_load = 0;       ///< the share of the NICs of the host, from 0 to 1

  /// Of a step whose messages have so many bytes: linear in the logarithm of the bytes between
  /// short and long messages.
  Seconds latency_of(double bytes) const;
  Seconds farthest_latency_of(double bytes) const;

  bool operator==(const Link&) const = default;
};

/// Libraries send short messages at once, and first ask for the place of a long one.
inline constexpr Bytes kShortMessage{256};
inline constexpr Bytes kLongMessage{16 << 10};

struct Cluster {
  std::string name;
  std::string about;   ///< in one line
  std::string source;  ///< where the numbers come from
  int gpus_per_host = 1;
  std::optional<int> hosts;                  ///< the largest number of hosts
  std::optional<double> price_per_gpu_hour;  ///< in a currency of the user's choice
  Device device;
  Network network;

  /// A measured group where there is one of this shape. For groups that span hosts, values between
  /// measured groups with the same members on a host, siblings and distance: linear in the
  /// logarithm of the number of members, constant beyond the smallest and largest. Otherwise what
  /// follows from the links; docs/cluster-files.md derives it.
  Link link(const GroupShape& shape) const;

  bool operator==(const Cluster&) const = default;
};

}  // namespace fourfold::cluster
