// A whole training run: from a configuration to a folder with a trained model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/report/rank_trace.hpp"
#include "fourfold/train/run_facts.hpp"
#include "fourfold/train/trace_steps.hpp"

namespace fourfold::train {

/// Where rank 0 writes to the user.
struct Console {
  std::function<void(const std::string&)> say;   ///< writes a line that stays
  std::function<void(const std::string&)> show;  ///< writes a line that the next one may replace
  bool lively = false;                           ///< a user is watching: show every step
};

/// What was predicted for a run before it began.
struct Prediction {
  Seconds step;                           ///< 0: not predicted
  Bytes memory;                           ///< the peak of the tensors of the fullest rank; or 0
  std::vector<report::RankTrace> traces;  ///< of a predicted step, for the report
  std::string part;                       ///< of the step that the traces show; empty: all of it
  std::string missing;  ///< why only the memory was predicted, for the user; may be empty
};

/// Gives the configuration its grid and everything else that may be chosen, on all ranks alike, and
/// says what it has chosen. `predicted` gets the prediction on the first rank, if there is one.
/// Collective.
using Choose = std::function<std::string(comm::World& world, config::Config& config,
                                         std::optional<Prediction>& predicted)>;

/// Predicts the step of a configuration that has a grid. Only the first rank gets a prediction.
/// Collective.
using Predict = std::function<Prediction(comm::World& world, const config::Config& config)>;

struct RunSpec {
  config::Config config;
  std::string name = "run";  ///< the name of the configuration, for the folder
  std::string out;           ///< the folder of the run; empty: a new one in runs/
  /// The folder of a run that goes on from its newest checkpoint; it begins if there is none.
  /// Empty: a new run.
  std::string resume;
  /// Whether there is a checkpoint to go on from, good or not. It replaces `train.init_from`.
  bool has_checkpoint = false;
  /// Whether the grid of the configuration is only that of an earlier part of the run: on another
  /// number of ranks another one is chosen.
  bool free_grid = false;
  /// Where a run goes on with another configuration: its own, whose grid it takes if it can.
  std::optional<config::Config> own{};
  std::string json;                  ///< a file for the results, or empty
  std::string report;                ///< a file for a page about the run, or empty
  std::string trace;                 ///< a file for the timeline of all ranks, or empty
  TraceSteps trace_steps{};          ///< for the trace and the timeline of the page
  std::string command;               ///< the line that started the run, for the results
  Facts versions;                    ///< of the program and its libraries
  std::vector<std::string> remarks;  ///< about the machine; they are written first
  Choose choose;                     ///< without it the grid is chosen by the bytes that are sent
};

/// Trains on the ranks of this world; collective. Nothing is written before all input has been
/// checked. The folder then holds config.toml, log.txt, metrics.jsonl, TensorBoard's events, and at
/// the end the model: model.safetensors, ema.safetensors with the running mean of the weights if
/// one is kept, config.json, and of a model of text generation_config.json and the tokenizer's
/// files. A model of images draws pictures into it. Checkpoints are in its folder checkpoints.
/// Throws ConfigError for mistakes that the user can fix.
///
/// Returns false if a signal (`launch::stop_requested`) has asked the run to stop before its last
/// step: then its state is saved, and there is no model.
bool run(comm::World& world, RunSpec spec, const Console& console);

/// Throws ConfigError that names --out when no new folder can be made there.
void check_run_folder(const std::string& out);

}  // namespace fourfold::train
