// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/keys.hpp"

#include "fourfold/cluster/rules.hpp"

namespace fourfold::cluster {

namespace {

using config::Choice;
using config::Real;
using config::Whole;

// Bounds far above any cluster.
constexpr std::int64_t kMostOfAHost = 1 << 10;
constexpr std::int64_t kMostHosts = 1 << 24;

/// The key "section.name" for the member that the pointers to members lead to.
template <class Rule, class... Members>
Key key(std::string_view full_name, std::string_view meaning, Rule rule, Members... members) {
  const auto dot = full_name.find('.');
  return {.section = std::string(full_name.substr(0, dot)),
          .name = std::string(full_name.substr(dot + 1)),
          .meaning = std::string(meaning),
          .allowed = rule.allowed(),
          .assign = [=](Cluster& cluster,
                        const Value& value) { return rule.assign((cluster.*....*members), value); },
          .value = [=](const Cluster& cluster) { return rule.value_of((cluster.*....*members)); }};
}

Key optional(Key key) {
  key.required = false;
  return key;
}

std::vector<Key> cluster_keys() {
  return {
      key("cluster.name", "its name", Title{}, &Cluster::name),
      optional(key("cluster.about", "the cluster in one line", Text{}, &Cluster::about)),
      optional(key("cluster.source", "where the numbers come from", Text{}, &Cluster::source)),
      key("cluster.gpus_per_host", "devices of a host; each is one rank", Whole{1, kMostOfAHost},
          &Cluster::gpus_per_host),
      optional(key("cluster.hosts", "the largest number of hosts of a job; without it any number",
                   Maybe<Whole>{{1, kMostHosts}}, &Cluster::hosts)),
      optional(key("cluster.price_per_gpu_hour", "in a currency of your choice; without it none",
                   Maybe<Real>{{.low = 0, .low_too = true, .high = 1e9}},
                   &Cluster::price_per_gpu_hour)),
  };
}

std::vector<Key> device_keys() {
  constexpr auto device = &Cluster::device;
  return {
      key("device.name", "its name", Title{}, device, &Device::name),
      key("device.memory_gib", "memory of a device, in GiB", Gib{}, device, &Device::memory),
      key("device.usable_memory", "the share of it that training can use", Share{}, device,
          &Device::usable_memory),
      key("device.memory_bandwidth", "peak bandwidth of its memory, in bytes per second",
          kBandwidth, device, &Device::memory_bandwidth),
      key("device.usable_bandwidth", "the share of it that large kernels reach", Share{}, device,
          &Device::usable_bandwidth),
      key("device.bf16", "peak rate of products of 16 bits, in flop per second", kRate, device,
          &Device::bf16),
      key("device.f32", "the same for float32", kRate, device, &Device::f32),
      key("device.f64", "the same for float64", kRate, device, &Device::f64),
      key("device.product_efficiency",
          "rows [side, share]: the share of the peak rate that a product reaches whose smallest "
          "extent is `side`",
          ProductPoints{}, device, &Device::product_efficiency),
      key("device.attention_efficiency", "the share of the peak rate that attention reaches",
          Share{}, device, &Device::attention_efficiency),
      key("device.kernel_start", "a fixed time of every stretch of compute, in seconds", kTime,
          device, &Device::kernel_start),
      key("device.slowdown",
          "compute takes this many times as long while communication is under way",
          Real{.low = 1, .high = 100}, device, &Device::slowdown),
  };
}

std::vector<Key> network_keys() {
  constexpr auto network = &Cluster::network;
  return {
      key("network.library", "`nccl` (also RCCL), or `fourfold` for our own algorithms",
          Choice<Library>{{Library::kFourfold, Library::kNccl}}, network, &Network::library),
      optional(key("network.algorithms",
                   "of NCCL: `ring`, `tree`, `two-level`; without it ring and tree", Algorithms{},
                   network, &Network::algorithms)),
      key("network.topology",
          "inside a host: `mesh` (a link between each two devices) or `switch` (one port a device)",
          Choice<Topology>{{Topology::kMesh, Topology::kSwitch}}, network, &Network::topology),
      key("network.inside_bandwidth",
          "of all links of a device inside its host, one direction, in bytes per second",
          kBandwidth, network, &Network::inside_bandwidth),
      key("network.inside_usable", "the share of it that collectives reach", Share{}, network,
          &Network::inside_usable),
      key("network.inside_latency", "of one step inside a host, in seconds", kTime, network,
          &Network::inside_latency),
      key("network.nics", "network interfaces of a host", Whole{1, kMostOfAHost}, network,
          &Network::nics),
      key("network.nic_bandwidth", "of each of them, one direction, in bytes per second",
          kBandwidth, network, &Network::nic_bandwidth),
      key("network.nic_usable", "the share of it that collectives reach", Share{}, network,
          &Network::nic_usable),
      key("network.nic_latency", "of one step between hosts, in seconds", kTime, network,
          &Network::nic_latency),
      optional(key(
          "network.measured",
          "rows [members, members on a host, groups on a host, distance, latency, "
          "bandwidth] of groups that were measured, with the latency of long messages as a seventh "
          "number if it is known",
          MeasuredGroups{}, network, &Network::measured)),
  };
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> all = [] {
    std::vector<Key> joined = cluster_keys();
    for (const auto& part : {device_keys(), network_keys()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }();
  return all;
}

std::string key_table_markdown() {
  std::string text = "| key | meaning |\n|---|---|\n";
  for (const Key& key : keys()) {
    text += concat("| `", key.full_name(), "` | ", key.meaning, key.required ? "" : " (optional)",
                   " |\n");
  }
  return text;
}

}  // namespace fourfold::cluster
