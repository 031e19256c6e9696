// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/shared_dataset.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/config/write.hpp"

namespace fourfold::train {

namespace {

/// A digest of everything that ranks must agree on before they train together.
std::int64_t digest_of(const config::Config& config, const Dataset& dataset) {
  config::Config shared = config;
  shared.data = {};  // paths may differ between hosts, but not the data
  shared.train.init_from.clear();
  data::Digest digest;
  digest.add(config::to_toml(shared));
  dataset.train->add_to(digest);
  if (dataset.validation) dataset.validation->add_to(digest);
  return static_cast<std::int64_t>(std::stoull(digest.text().substr(0, 15), nullptr, 16));
}

/// Throws ConfigError when a host has other data or another configuration than the first.
void check_agreement(const comm::World& world, const comm::Communicator& everyone,
                     std::int64_t own) {
  if (everyone.size() == 1) return;
  std::vector<std::int64_t> all(static_cast<std::size_t>(everyone.size()));
  everyone
      .all_gather({&own, 1, schedule::DType::kI64},
                  {all.data(), static_cast<std::int64_t>(all.size()), schedule::DType::kI64})
      .wait();
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i] == all[0]) continue;
    throw ConfigError(concat("rank ", i, " on ", world.host(static_cast<int>(i)),
                             " has other data or another configuration than rank 0 on ",
                             world.host(0), ": all hosts must see the same files"));
  }
}

}  // namespace

Dataset open_shared_dataset(comm::World& world, config::Config& config,
                            const std::function<void(const std::string&)>& show_progress) {
  const bool first = world.rank() == 0;
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  Dataset dataset;
  const auto open = [&] {
    const comm::LongWork long_work = world.long_work("preparing the data");
    const auto show = [&](const std::string& line) {
      if (first) show_progress(line);
    };
    dataset = open_dataset(config, show, first);
  };
  if (first) open();
  everyone.barrier().wait();
  if (!first) open();
  check_agreement(world, everyone, digest_of(config, dataset));
  return dataset;
}

}  // namespace fourfold::train
