// fourfold plan: which configuration to run on a cluster, before anything runs.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"
#include "fourfold/cluster/load.hpp"
#include "fourfold/config/value.hpp"
#include "fourfold/config/write.hpp"
#include "fourfold/plan/published.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/planner/scaling.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/options.hpp"
#include "apps/fourfold/strategies.hpp"

namespace fourfold::app {

namespace {

struct PlanOptions {
  config::Source source;
  std::string cluster;
  std::optional<int> gpus;
  std::optional<std::int64_t> top;
  std::string cost = "full";
  std::string explain;
  std::string strategies;
  std::string sweep;
  std::string keep;
  std::optional<double> tokens;
  std::string write_config;
  std::string json;
  std::string html;
};

/// How many plans are shown.
std::size_t top_of(const PlanOptions& options) {
  constexpr std::int64_t kUnlessGiven = 10;
  return static_cast<std::size_t>(options.top.value_or(kUnlessGiven));
}

/// Leaves what --keep names as it is in the configuration.
void apply_keep(const std::string& keep, planner::Question& question) {
  if (keep.empty()) return;
  planner::Freedom& freedom = question.search.freedom;
  const config::ParallelConfig& parallel = question.config.parallel;
  for (const std::string& name : split(keep, ',')) {
    if (name == "strategy") {
      if (parallel.strategy == config::kAuto) {
        throw ConfigError(
            "--keep strategy needs a strategy: add --set parallel.strategy=4d or another one");
      }
      question.search.strategies = {parallel.strategy};
    } else if (name == "grid") {
      const int ranks = grid::Grid(parallel.sizes).ranks();
      if (ranks != question.ranks) {
        throw ConfigError(concat("--keep grid: ", parallel.sizes, " is a grid of ", ranks,
                                 " ranks, and --gpus is ", question.ranks));
      }
      freedom.grid = false;
    } else if (name == "pipe") {
      freedom.pipe = false;
    } else if (name == "placement") {
      freedom.placement = false;
    } else if (name == "activations") {
      freedom.activations = false;
    } else if (name == "checkpointing") {
      freedom.checkpoint = false;
    } else if (name == "micro_batch") {
      freedom.micro_batch = false;
    } else if (name == "chunks") {
      freedom.chunks = false;
    } else if (name == "zero") {
      freedom.zero = false;
    } else {
      throw ConfigError(concat("--keep ", keep, ": there is no ", name,
                               "; there are strategy, grid, pipe, placement, activations, "
                               "checkpointing, micro_batch, chunks and zero"));
    }
  }
}

planner::Question question_of(const PlanOptions& options, const config::Config& config,
                              const cluster::Cluster& cluster, int gpus) {
  planner::Question question;
  question.config = config;
  question.cluster = cluster;
  question.ranks = gpus;
  question.tokens = options.tokens.value_or(0);
  question.search.top = top_of(options);
  apply_keep(options.keep, question);
  question.search.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (isatty(STDERR_FILENO) != 0) {
    question.search.progress = [](double, const std::string& text) {
      std::fprintf(stderr, "\r\033[K%s", text.c_str());
      std::fflush(stderr);
    };
  }
  return question;
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
}

/// The table of the paper's model, which knows communication only.
int published(const PlanOptions& options, const config::Config& config,
              const cluster::Cluster& cluster) {
  if (config.model.has_images()) {
    throw ConfigError(concat("--cost ", options.cost,
                             " is the published model of transformers; leave it out for a model of "
                             "images"));
  }
  const auto variant =
      options.cost == "published" ? plan::Published::kAsPublished : plan::Published::kCorrected;
  const plan::PublishedModel model{.width = config.model.width,
                                   .layers = config.model.layers,
                                   .context = config.model.context,
                                   .batch = config.train.batch,
                                   .accumulation = config.train.batch / config.train.micro_batch};
  const std::vector<plan::PublishedChoice> found =
      plan::published_search(model, *options.gpus, 1, cluster, variant);
  if (found.empty()) {
    throw ConfigError(concat("the published model has no grid of ", *options.gpus,
                             " GPUs: it takes powers of two, and a train.batch that data times z "
                             "divides"));
  }
  TextTable table({"#", "grid", "communication"});
  nlohmann::ordered_json json = {{"cost", options.cost},
                                 {"plans", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < std::min(top_of(options), found.size()); ++i) {
    const grid::Sizes sizes = found[i].grid.sizes();
    table.add({std::to_string(i + 1), grid::to_string(sizes), to_string(found[i].time)});
    json["plans"].push_back(
        {{"grid",
          {{"x", sizes.x}, {"y", sizes.y}, {"z", sizes.z}, {"data", sizes.data}, {"pipe", 1}}},
         {"communication_seconds", found[i].time.value()}});
  }
  std::printf(
      "%s\nThis is the %s model: bytes over bandwidth, without compute, latency, overlap and "
      "memory. %zu grids of powers of two were compared.\n",
      table.text().c_str(), options.cost.c_str(), found.size());
  if (!options.json.empty()) write_text(options.json, json.dump(2) + "\n");
  return 0;
}

struct Range {
  int first = 0;
  int last = 0;
};

Range parse_sweep(const std::string& text) {
  const std::size_t dots = text.find("..");
  const std::string wrong =
      concat("--sweep ", text, ": a range of numbers of GPUs such as gpus=64..16384 is expected");
  if (!text.starts_with("gpus=") || dots == std::string::npos) throw ConfigError(wrong);
  const auto first = parse_int(text.substr(5, dots - 5));
  const auto last = parse_int(text.substr(dots + 2));
  if (!first || !last || *first < 1 || *last < *first || *last > planner::kMostRanks)
    throw ConfigError(wrong);
  return {static_cast<int>(*first), static_cast<int>(*last)};
}

/// The best plan for each number of GPUs, which doubles from one to the next.
int sweep(const PlanOptions& options, const config::Config& config,
          const cluster::Cluster& cluster) {
  const Range range = parse_sweep(options.sweep);
  const planner::Scaling scaling =
      planner::scale(question_of(options, config, cluster, range.first), range.first, range.last);
  end_progress();
  std::printf("%s", planner::to_text(scaling).c_str());
  if (!options.json.empty()) write_text(options.json, planner::to_json(scaling));
  if (!options.html.empty()) write_text(options.html, planner::to_page(scaling));
  return 0;
}

/// Throws ConfigError for options that would have no effect together.
void check_combination(const PlanOptions& options) {
  const std::vector<std::pair<std::string, bool>> given = {
      {"--gpus", options.gpus.has_value()},
      {"--explain", !options.explain.empty()},
      {"--strategies", !options.strategies.empty()},
      {"--write-config", !options.write_config.empty()},
      {"--html", !options.html.empty()},
      {"--tokens", options.tokens.has_value()},
      {"--top", options.top.has_value()},
      {"--keep", !options.keep.empty()},
      {"--sweep", !options.sweep.empty()}};
  const auto refuse = [&](const std::string& option, const std::vector<std::string>& others) {
    for (const auto& [name, is_given] : given) {
      if (is_given && std::find(others.begin(), others.end(), name) != others.end()) {
        throw ConfigError(concat(name, " does not go with ", option, "; see fourfold plan --help"));
      }
    }
  };
  if (!options.sweep.empty()) {
    refuse("--sweep",
           {"--gpus", "--explain", "--strategies", "--write-config", "--tokens", "--top"});
    const std::vector<std::string> kept = split(options.keep, ',');
    if (std::find(kept.begin(), kept.end(), "grid") != kept.end()) {
      throw ConfigError(
          "--keep grid does not go with --sweep: a grid is for one number of GPUs; use --gpus");
    }
  }
  if (options.cost != "full") {
    refuse("--cost " + options.cost, {"--sweep", "--explain", "--strategies", "--write-config",
                                      "--html", "--tokens", "--keep"});
  }
}

/// The grid of --explain.
std::optional<grid::Sizes> grid_to_explain(const PlanOptions& options) {
  if (options.explain.empty()) return std::nullopt;
  try {
    const grid::Sizes sizes = grid::parse_sizes(options.explain);
    static_cast<void>(grid::Grid(sizes));  // throws if there are too many ranks
    return sizes;
  } catch (const ConfigError& error) {
    throw ConfigError(concat("--explain ", config::escape(options.explain), ": ", error.what()));
  }
}

/// The best plans, printed and written to files.
int plan(const PlanOptions& options, const config::Config& config,
         const cluster::Cluster& cluster) {
  const std::vector<std::string> names = options.strategies.empty()
                                             ? std::vector<std::string>{}
                                             : parse_strategies(options.strategies);
  planner::Question question = question_of(options, config, cluster, *options.gpus);
  question.explain = grid_to_explain(options);
  const planner::Answer answer = planner::answer(std::move(question), names);
  end_progress();
  planner::check_found(answer);
  std::printf("%s", planner::to_text(answer).c_str());
  if (!options.json.empty()) write_text(options.json, planner::to_json(answer));
  if (!options.html.empty()) write_text(options.html, planner::to_page(answer));
  if (!options.write_config.empty()) {
    write_text(options.write_config,
               config::to_toml(planner::apply(config, answer.found.plans.front().candidate)));
  }
  return 0;
}

int run(const PlanOptions& options) {
  check_combination(options);
  const config::Config config = read_without_data(options.source);
  const cluster::Cluster cluster = cluster::load(options.cluster);
  if (options.top && *options.top < 1) {
    throw ConfigError(concat("--top must be at least 1, not ", *options.top));
  }
  if (options.tokens && !(*options.tokens > 0 && std::isfinite(*options.tokens))) {
    throw ConfigError(concat("--tokens must be above 0, not ", *options.tokens));
  }
  if (options.sweep.empty() && !options.gpus) {
    throw ConfigError("--gpus N is missing: for how many GPUs is the plan?");
  }
  if (options.gpus) planner::check_ranks(*options.gpus);
  check_outputs({{"--json", options.json},
                 {"--html", options.html},
                 {"--write-config", options.write_config}});
  if (!options.sweep.empty()) return sweep(options, config, cluster);
  return options.cost == "full" ? plan(options, config, cluster)
                                : published(options, config, cluster);
}

}  // namespace

void add_plan(CLI::App& app, Command& command) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand(
      "plan", "predicts which configurations train fastest on a cluster, before anything runs");
  add_config_options(*plan, options->source);
  plan->add_option("--cluster", options->cluster,
                   "a cluster by name (" + join(cluster::known_clusters(), ", ") +
                       ") or the file that fourfold calibrate writes")
      ->required();
  plan->add_option("--gpus", options->gpus, "how many devices to use");
  plan->add_option("--top", options->top, "how many plans to show [10]");
  plan->add_option("--cost", options->cost,
                   "full, or the model of the paper about the 4-D algorithm for comparison: "
                   "published or corrected")
      ->capture_default_str()
      ->check(CLI::IsMember({"full", "published", "corrected"}));
  plan->add_option("--explain", options->explain, "everything about this grid: x=2,y=4,data=8");
  plan->add_option("--strategies", options->strategies,
                   "show the best of each of these strategies too: all, or names with commas");
  plan->add_option("--sweep", options->sweep,
                   "the best plan for each number of GPUs: gpus=64..16384");
  plan->add_option("--keep", options->keep,
                   "leave these as in CONFIG: strategy, grid, pipe, placement, activations, "
                   "checkpointing, micro_batch, chunks, zero");
  plan->add_option("--tokens", options->tokens, "how long training on so many tokens takes");
  plan->add_option("--write-config", options->write_config, "write the best plan as a CONFIG");
  plan->add_option("--json", options->json, "write the plans to this file as well");
  plan->add_option("--html", options->html, "write a page with pictures to this file");
  plan->callback([options, &command] { command = [options](char**) { return run(*options); }; });
}

}  // namespace fourfold::app
