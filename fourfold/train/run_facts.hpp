// Facts about a run and its machine, for its first lines, its results and its page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/train/dataset.hpp"

namespace fourfold::train {

/// Names and values, in order.
using Facts = std::vector<std::pair<std::string, std::string>>;

struct RunFacts {
  std::string started;                             ///< "2025-03-01 14:05:09 +0100"
  std::string command;                             ///< empty if unknown
  Facts versions;                                  ///< of the program and the libraries
  std::vector<std::pair<std::string, int>> hosts;  ///< with the number of ranks of each
  std::string strategy;
  std::string grid;
  std::string precision;
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  std::int64_t samples_per_step = 0;
  std::string unit = "tokens";  ///< what data is counted in: tokens or images
  std::int64_t units_per_step = 0;
  std::string data;              ///< its path
  std::int64_t train_units = 0;  ///< in an epoch
  std::int64_t validation_units = 0;
  double epochs = 0;      ///< how often the run sees the training data
  std::string init_from;  ///< empty: random initial weights
  Seconds total{};        ///< set when the run is over
};

/// `config` must be resolved: its vocabulary and grid are known.
RunFacts facts_of(const comm::World& world, const config::Config& config, const Dataset& data);

/// Describes the size of the run: "124.4 M parameters in float32, strategy 4d on x=2; 900 steps of
/// 1,024 tokens (16 sequences of 64): 1.80 epochs of 512,345 tokens", or for
/// images "...; 900 steps of 32 images: 0.48 epochs of 60,000 images".
std::string describe(const RunFacts& facts);

/// All facts, for a table.
Facts listed(const RunFacts& facts);

/// "1,234,567".
std::string with_commas(std::int64_t number);

}  // namespace fourfold::train
