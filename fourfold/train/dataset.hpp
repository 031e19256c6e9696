// The data of a run: tokens of a text or of token files, cut into samples, or images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fourfold/config/config.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/train/sample_source.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

struct Dataset {
  SampleSourcePtr train;
  SampleSourcePtr validation;                  ///< null if no data is reserved for it
  std::shared_ptr<data::Tokenizer> tokenizer;  ///< null for token files and images
  std::string about;                           ///< one line for the user
  std::int64_t train_units = 0;                ///< tokens or images
  std::int64_t validation_units = 0;
};

/// What the data of a model is counted in: "tokens" or "images".
std::string unit_of(const config::ModelConfig& model);
/// How many of them a step reads.
std::int64_t units_of_step(const config::Config& config);

/// Opens the images, tokenises the text, or takes its tokens from the cache, or opens the token
/// files. Fills in the model's vocabulary where the configuration leaves it to the tokenizer. If
/// training starts from a model, the tokenizer of that model is used. Throws ConfigError. No token
/// file is read as a whole: if `look` is true, some of its tokens are compared with the vocabulary
/// now. All tokens are checked when they are read.
Dataset open_dataset(config::Config& config,
                     const std::function<void(const std::string&)>& show_progress,
                     bool look = true);

/// Throws ConfigError for a file or folder of the configuration that does not exist, and for a
/// model that cannot be trained.
void check_inputs(const config::Config& config);

/// These are arguments for Trainer::step and Trainer::validate. The dataset must outlive them.
ReadSample read_training(const Dataset& dataset);
ReadSample read_validation(const Dataset& dataset);

/// The number of passes over micro-batches that a validation makes. It is limited by the data.
std::int64_t validation_passes(const Dataset& dataset, const config::TrainConfig& config);

}  // namespace fourfold::train
