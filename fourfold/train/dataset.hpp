// The data of a run: text made into tokens, or token files, cut into samples.
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
  std::optional<data::Samples> validation;     ///< where some data is kept for it
  std::shared_ptr<data::Tokenizer> tokenizer;  ///< null for token files
  std::string about;                           ///< one line for the user
  std::int64_t train_tokens = 0;
  std::int64_t validation_tokens = 0;
};

/// Prepares the text, or takes it from the cache; or opens the token files. Fills in the model's
/// vocabulary where the configuration leaves it to the tokenizer. A model that training starts from
/// brings its tokenizer along. Throws ConfigError. No token file is read as a whole: with `look`
/// some of its tokens are held against the vocabulary now, and all of them when they are read.
Dataset open_dataset(config::Config& config,
                     const std::function<void(const std::string&)>& show_progress,
                     bool look = true);

/// Throws ConfigError for a file or folder of the configuration that does not exist.
void check_inputs(const config::Config& config);

/// For Trainer::step and Trainer::validate. The dataset must outlive them.
ReadSample read_training(const Dataset& dataset);
ReadSample read_validation(const Dataset& dataset);

/// How many passes over micro-batches a validation makes: no more than there is data for.
std::int64_t validation_passes(const Dataset& dataset, const config::TrainConfig& config);

}  // namespace fourfold::train
