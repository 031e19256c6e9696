// The data of a run: tokens of a text, or token files, cut into samples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fourfold/config/config.hpp"
#include "fourfold/data/samples.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

struct Dataset {
  std::optional<data::Samples> train;
  std::optional<data::Samples> validation;     ///< if some data is reserved for it
  std::shared_ptr<data::Tokenizer> tokenizer;  ///< null for token files
  std::string about;                           ///< one line for the user
  std::int64_t train_tokens = 0;
  std::int64_t validation_tokens = 0;
};

/// Tokenises the text, or takes its tokens from the cache, or opens the token files. Fills in the
/// model's vocabulary where the configuration leaves it to the tokenizer. If training starts from a
/// model, the tokenizer of that model is used. Throws ConfigError. No token file is read as a
/// whole: if `look` is true, some of its tokens are compared with the vocabulary now. All tokens
/// are checked when they are read.
Dataset open_dataset(config::Config& config,
                     const std::function<void(const std::string&)>& show_progress,
                     bool look = true);

/// Throws ConfigError for a file or folder of the configuration that does not exist.
void check_inputs(const config::Config& config);

/// These are arguments for Trainer::step and Trainer::validate. The dataset must outlive them.
ReadSample read_training(const Dataset& dataset);
ReadSample read_validation(const Dataset& dataset);

/// The number of passes over micro-batches that a validation makes. It is limited by the data.
std::int64_t validation_passes(const Dataset& dataset, const config::TrainConfig& config);

}  // namespace fourfold::train
