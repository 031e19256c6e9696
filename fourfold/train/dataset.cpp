// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/dataset.hpp"

#include <algorithm>
#include <filesystem>

#include "fourfold/base/check.hpp"
#include "fourfold/base/units.hpp"
#include "fourfold/data/prepare.hpp"

namespace fourfold::train {

namespace {

/// The data as it is on disk.
struct Streams {
  data::Tokens train;
  std::optional<data::Tokens> validation;
};

/// The tokenizer that is used unchanged, if there is one. Weights need the tokens that they were
/// trained with, so theirs is used unless another one is given.
const std::string& given_tokenizer(const config::Config& config) {
  const std::string& given = config.data.tokenizer_from;
  return given.empty() ? config.train.init_from : given;
}

void settle_vocabulary(config::Config& config, std::int64_t vocabulary) {
  if (config.model.vocab == 0) config.model.vocab = vocabulary;
  if (config.model.vocab < vocabulary) {
    throw ConfigError(concat("model.vocab = ", config.model.vocab, " is less than the ", vocabulary,
                             " tokens of the tokenizer; set it to that or more"));
  }
}

Streams open_text(config::Config& config, Dataset& dataset,
                  const std::function<void(const std::string&)>& show_progress) {
  data::PrepareSpec spec;
  spec.text = config.data.text;
  spec.tokenizer = config::to_string(config.data.tokenizer);
  spec.vocabulary = config.model.vocab;
  if (config.data.tokenizer == config::Tokenizer::kBytes) spec.vocabulary = 0;
  spec.tokenizer_folder = given_tokenizer(config);
  spec.validation = config.data.validation;
  spec.cache = config.data.cache;
  spec.progress = [&](std::string_view task, double done) {
    show_progress(concat(task, " ", config.data.text, ": ", static_cast<int>(100 * done), "%"));
  };
  const data::Prepared prepared = data::prepare(spec);
  dataset.tokenizer = data::load_tokenizer(prepared.tokenizer);
  settle_vocabulary(config, prepared.vocabulary);
  const std::string skipped = prepared.files_skipped > 0
                                  ? concat(" (", prepared.files_skipped, " others are not text)")
                                  : "";
  dataset.about = concat(config.data.text, ": ", prepared.files_used,
                         prepared.files_used == 1 ? " file" : " files", skipped, ", ",
                         Bytes(prepared.bytes), " of text, ", prepared.train_tokens, " tokens and ",
                         prepared.validation_tokens, " for validation");
  Streams streams{data::Tokens(prepared.train), std::nullopt};
  if (!prepared.validation.empty()) streams.validation.emplace(prepared.validation);
  return streams;
}

Streams open_tokens(config::Config& config, Dataset& dataset, bool look) {
  const std::string& tokenizer = given_tokenizer(config);
  const data::Tokens all(config.data.tokens);
  if (look) all.check_some_below(config.model.vocab);
  if (!config.data.tokenizer_from.empty() || data::has_tokenizer(tokenizer)) {
    dataset.tokenizer = data::load_tokenizer(tokenizer);
    settle_vocabulary(config, dataset.tokenizer->vocabulary());
  }
  Streams streams{all, std::nullopt};
  if (!config.data.validation_tokens.empty()) {
    streams.validation.emplace(config.data.validation_tokens);
    if (look) streams.validation->check_some_below(config.model.vocab);
  } else if (config.data.validation > 0) {
    const auto kept =
        static_cast<std::int64_t>(static_cast<double>(all.size()) * (1 - config.data.validation));
    streams.train = all.slice(0, kept);
    streams.validation.emplace(all.slice(kept, all.size()));
  }
  dataset.about = concat(config.data.tokens, ": ", streams.train.size(), " tokens and ",
                         streams.validation ? streams.validation->size() : 0, " for validation");
  return streams;
}

void open_text_or_tokens(config::Config& config, Dataset& dataset,
                         const std::function<void(const std::string&)>& show_progress, bool look) {
  const Streams streams = config.data.text.empty() ? open_tokens(config, dataset, look)
                                                   : open_text(config, dataset, show_progress);
  const auto source = [&](const data::Tokens& tokens) {
    return token_source(
        data::Samples(tokens, config.model.context, config.train.seed, config.model.vocab));
  };
  dataset.train_units = streams.train.size();
  dataset.train = source(streams.train);
  if (!streams.validation) return;
  dataset.validation_units = streams.validation->size();
  if (streams.validation->size() <= config.model.context) {
    throw ConfigError(concat("the validation data has ", streams.validation->size(),
                             " tokens, fewer than a sample of ", config.model.context,
                             " and the next one; set data.validation to a larger share, or to 0"));
  }
  dataset.validation = source(*streams.validation);
}

void open_images(const config::Config& config, Dataset& dataset) {
  const config::ModelConfig& model = config.model;
  const data::ImageSplit images = data::open_image_split(
      config.data.images, model.image, static_cast<int>(model.colours), config.data.validation);
  dataset.train =
      image_source(data::ImageSamples(images.training, config.train.seed, config.data.flip));
  dataset.train_units = images.training->count();
  if (images.validation) {
    dataset.validation =
        image_source(data::ImageSamples(images.validation, config.train.seed, false));
    dataset.validation_units = images.validation->count();
  }
  dataset.about = concat(config.data.images, ": ", dataset.train_units, " images of ", model.image,
                         " x ", model.image, model.colours == 1 ? " in grey and " : " in RGB and ",
                         dataset.validation_units, " for validation",
                         config.data.flip ? "; half of those for training are mirrored" : "");
}

}  // namespace

std::string unit_of(const config::ModelConfig& model) {
  return model.has_images() ? "images" : "tokens";
}

std::int64_t units_of_step(const config::Config& config) {
  return config.train.batch * (config.model.has_images() ? 1 : config.model.context);
}

void check_inputs(const config::Config& config) {
  if (config.model.learn_sigma) {
    throw ConfigError(
        "model.learn_sigma = true can be planned and dry-run, but not trained: set it to false");
  }
  const auto check = [](const char* key, const std::string& path) {
    std::error_code error;
    if (path.empty() || std::filesystem::exists(path, error)) return;
    throw ConfigError(
        concat(key, " = ", path, " does not exist; a relative path in a configuration starts at ",
               "the folder of the file, one of the command line at the working directory"));
  };
  check("data.text", config.data.text);
  check("data.tokens", config.data.tokens);
  check("data.validation_tokens", config.data.validation_tokens);
  check("data.tokenizer_from", config.data.tokenizer_from);
  check("data.images", config.data.images);
  check("train.init_from", config.train.init_from);
}

Dataset open_dataset(config::Config& config,
                     const std::function<void(const std::string&)>& show_progress, bool look) {
  check_inputs(config);
  Dataset dataset;
  if (config.model.has_images()) {
    open_images(config, dataset);
  } else {
    open_text_or_tokens(config, dataset, show_progress, look);
  }
  return dataset;
}

ReadSample read_training(const Dataset& dataset) {
  return [&source = *dataset.train](std::int64_t sample, std::span<const Tensor> data) {
    source.read(sample, data);
  };
}

ReadSample read_validation(const Dataset& dataset) {
  return [&source = *dataset.validation](std::int64_t sample, std::span<const Tensor> data) {
    // If the data does not fill the last batch, samples from the beginning are used.
    source.read_in_order(sample % source.samples(), data);
  };
}

std::int64_t validation_passes(const Dataset& dataset, const config::TrainConfig& config) {
  const std::int64_t samples = dataset.validation->samples();
  const std::int64_t most = (samples + config.micro_batch - 1) / config.micro_batch;
  return std::min(config.validate_batches, most);
}

}  // namespace fourfold::train
