// fourfold sample: generates text or draws images with a trained model.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/generation_config.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/model/generate.hpp"
#include "fourfold/train/run_folder.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/ranks.hpp"
#include "apps/fourfold/sample_images.hpp"

namespace fourfold::app {

namespace {

struct SampleOptions {
  RankOptions ranks;
  std::string folder;
  std::string prompt;
  std::int64_t tokens = 100;
  std::optional<std::int64_t> samples;  ///< the default depends on the model
  model::Sampling sampling{.temperature = 0.8, .top_k = 50};
  std::string json;
  std::string out;                    ///< of images
  std::optional<std::int64_t> steps;  ///< of images; the default is 50, or all that there are
  std::string sampler = "ddim";
};

/// The folder's model, for continuing a single text. With replicated activations no rows have to
/// divide.
model::ModelPtr model_in(const std::string& folder) {
  return checkpoint::read_model_config(folder, nn::Activations::kReplicated);
}

/// One text is not split over z and data, so the grid is over x and y, as square as the heads
/// allow.
grid::Sizes sampling_grid(const model::Model& model, int ranks) {
  grid::Sizes best;
  int longest = 0;
  for (const grid::Sizes& g : model::fitting_grids(model, ranks, 1)) {
    if (g.z * g.data > 1 || (longest > 0 && std::max(g.x, g.y) >= longest)) continue;
    best = g;
    longest = std::max(g.x, g.y);
  }
  if (longest == 0) {
    throw ConfigError(concat("a model with ", model.sizes(), " cannot be split over ", ranks,
                             " ranks; choose a number that divides the heads"));
  }
  return best;
}

void check(const SampleOptions& options) {
  const auto require = [](bool condition, const char* message) {
    if (!condition) throw ConfigError(message);
  };
  require(options.tokens >= 1, "--tokens must be at least 1");
  require(options.samples.value_or(1) >= 1, "--samples must be at least 1");
  require(options.sampling.temperature >= 0 && std::isfinite(options.sampling.temperature),
          "--temperature must be a number of at least 0");
  require(options.sampling.top_k >= 0, "--top-k must be at least 0");
  if (!options.json.empty()) check_writable("--json", options.json);
}

/// Throws ConfigError unless the model generates text.
const model::Transformer& text_model(const model::Part& part) {
  const auto* text = dynamic_cast<const model::Transformer*>(&part);
  if (text == nullptr) throw ConfigError("the model in this folder does not generate text");
  return *text;
}

/// What all continuations of a prompt have in common.
struct Start {
  std::vector<std::int64_t> tokens;  ///< of the prompt, and before it the token that begins a text
  std::vector<std::int64_t> ends;    ///< the tokens that end a text
};

Start start_of(const data::Tokenizer& tokenizer, std::int64_t vocabulary,
               const SampleOptions& options) {
  checkpoint::GenerationTokens named =
      checkpoint::read_generation_tokens(options.folder, vocabulary);
  if (named.ends.empty() && tokenizer.end_of_text() >= 0) named.ends = {tokenizer.end_of_text()};
  Start start{.tokens = {}, .ends = std::move(named.ends)};
  if (tokenizer.begin_of_text() >= 0) start.tokens.push_back(tokenizer.begin_of_text());
  for (const std::int32_t token : tokenizer.encode(options.prompt)) start.tokens.push_back(token);
  if (start.tokens.empty()) {
    // There is nothing to continue, so the text begins after the end of another one.
    const std::int64_t end = std::max<std::int64_t>(0, tokenizer.end_of_text());
    start.tokens.push_back(named.begin >= 0 ? named.begin : end);
  }
  return start;
}

/// A text with the tokens that it was made of.
struct Continued {
  std::string text;
  std::vector<std::int64_t> tokens;
};

/// Generates one continuation of the prompt. The first rank prints it as it is generated.
Continued continue_text(const tensor::Mesh& mesh, const model::Transformer& model,
                        const data::Tokenizer& tokenizer, const Start& start,
                        const SampleOptions& options, std::int64_t number) {
  const bool first = mesh.everyone().rank() == 0;
  model::Text continued(mesh, model, start.tokens);
  std::string text = options.prompt;
  if (first) std::fputs(text.c_str(), stdout);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::vector<double> logits =
        continued.next_logits(std::min(model.frame().vocabulary, tokenizer.vocabulary()));
    const std::int64_t token = model::pick_token(
        logits, options.sampling, static_cast<std::uint64_t>(number * options.tokens + i));
    if (std::ranges::find(start.ends, token) != start.ends.end()) break;
    continued.add(token);
    const std::int32_t one = static_cast<std::int32_t>(token);
    const std::string piece = tokenizer.decode({&one, 1});
    text += piece;
    if (first) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
  }
  if (first) std::fputs("\n", stdout);
  return {std::move(text), continued.tokens()};
}

void run(comm::World& world, const SampleOptions& options) {
  const model::ModelPtr model = model_in(options.folder);
  const std::unique_ptr<data::Tokenizer> tokenizer = data::load_tokenizer(options.folder);
  const tensor::Mesh mesh(world, grid::Grid(sampling_grid(*model, world.size())));
  const std::unique_ptr<model::Part> part = model->make(mesh, 1, model->whole());
  {
    const comm::LongWork long_work = world.long_work("loading the weights");
    checkpoint::load_weights(*model, *part, options.folder, weights_in(options.folder));
  }
  const model::Transformer& transformer = text_model(*part);
  const Start start = start_of(*tokenizer, transformer.frame().vocabulary, options);
  nlohmann::json texts = nlohmann::json::array();
  nlohmann::json tokens = nlohmann::json::array();
  for (std::int64_t i = 0; i < options.samples.value_or(1); ++i) {
    if (i > 0 && world.rank() == 0) std::fputs("----\n", stdout);
    Continued one = continue_text(mesh, transformer, *tokenizer, start, options, i);
    texts.push_back(std::move(one.text));
    tokens.push_back(std::move(one.tokens));
  }
  if (world.rank() != 0 || options.json.empty()) return;
  // A text may end with an incomplete character.
  const nlohmann::json json = {{"samples", texts}, {"tokens", tokens}, {"ranks", world.size()}};
  write_text(options.json,
             json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

/// Throws ConfigError when one of these options was given.
void refuse_given(const CLI::App& sample, const std::vector<const char*>& names,
                  const std::string& folder, const char* what_it_does) {
  for (const char* name : names) {
    if (sample.count(name) == 0) continue;
    throw ConfigError(
        concat(name, " does not go with the model in ", folder, ", which ", what_it_does));
  }
}

int sample_text(const SampleOptions& options, const model::Model& model, char** argv) {
  check(options);
  // These checks find errors that would occur on every rank before any rank is started.
  static_cast<void>(data::load_tokenizer(options.folder));
  static_cast<void>(sampling_grid(model, options.ranks.ranks.value_or(1)));
  return run_on_ranks(options.ranks, argv, [&](comm::World& world) { run(world, options); });
}

int sample_with(const SampleOptions& options, const CLI::App& sample, char** argv) {
  const std::string unfinished = train::why_no_model(options.folder);
  if (!unfinished.empty()) throw ConfigError(unfinished);
  const model::ModelPtr model = model_in(options.folder);
  const auto* images = dynamic_cast<const model::UNetModel*>(model.get());
  if (images == nullptr) {
    refuse_given(sample, {"--out", "--steps", "--sampler"}, options.folder, "writes text");
    return sample_text(options, *model, argv);
  }
  refuse_given(sample, {"--prompt", "--tokens", "--temperature", "--top-k"}, options.folder,
               "draws images");
  if (options.sampler != "ddim" && options.sampler != "ddpm") {
    throw ConfigError(concat("--sampler ", options.sampler, " must be ddim or ddpm"));
  }
  constexpr std::int64_t kImages = 64;
  constexpr std::int64_t kSteps = 50;
  const std::int64_t steps = std::min(kSteps, images->spec().noise.steps);
  const bool ddim = options.sampler == "ddim";
  return sample_images({.ranks = options.ranks,
                        .folder = options.folder,
                        .out = options.out,
                        .json = options.json,
                        .drawing = {.images = options.samples.value_or(kImages),
                                    .steps = options.steps.value_or(steps),
                                    .sampler = ddim ? model::Sampler::kDdim : model::Sampler::kDdpm,
                                    .seed = options.sampling.seed}},
                       images->spec(), argv);
}

}  // namespace

void add_sample(CLI::App& app, Command& command) {
  auto options = std::make_shared<SampleOptions>();
  CLI::App* sample =
      app.add_subcommand("sample", "continues a text, or draws images, with a trained model");
  sample
      ->add_option("folder", options->folder,
                   "a run's folder, or one with a model of Hugging Face's")
      ->required()
      ->option_text("RUN_DIR");
  sample->add_option("--prompt", options->prompt, "the text to continue");
  sample->add_option("--tokens", options->tokens, "how many to add")->capture_default_str();
  sample->add_option("--samples", options->samples,
                     "how many continuations (1), or how many images (64)");
  sample
      ->add_option("--temperature", options->sampling.temperature,
                   "0 always takes the likeliest token, 1 draws as the model says")
      ->capture_default_str();
  sample->add_option("--top-k", options->sampling.top_k, "draw from the likeliest so many; 0: all")
      ->capture_default_str();
  sample
      ->add_option("--seed", options->sampling.seed,
                   "another one gives another text, or other images")
      ->capture_default_str();
  sample->add_option("--json", options->json,
                     "write the texts and their tokens to this file as well");
  sample->add_option("--out", options->out, "of a model of images: the PNG file to draw to");
  sample->add_option("--steps", options->steps, "of a model of images: from noise to images (50)");
  sample
      ->add_option("--sampler", options->sampler,
                   "of a model of images: ddim, or ddpm, which needs more steps")
      ->capture_default_str();
  add_rank_options(*sample, options->ranks);
  sample->callback([options, sample, &command] {
    command = [options, sample](char** argv) { return sample_with(*options, *sample, argv); };
  });
}

}  // namespace fourfold::app
