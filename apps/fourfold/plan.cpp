// fourfold plan: which configuration to run on a cluster, before anything runs.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
#include "fourfold/config/write.hpp"
#include "fourfold/plan/published.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/planner/scaling.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/options.hpp"
#include "apps/fourfold/strategies.hpp"

namespace fourfold::app {

namespace {

struct Options {
  config::Source source;
  std::string cluster;
  int gpus = 0;
  std::size_t top = 10;
  std::string cost = "full";
  std::string explain;
  std::string strategies;
  std::string sweep;
  std::string keep;
  double tokens = 0;
  std::string write_config;
  std::string json;
  std::string html;
};

/// What --keep leaves as it is in the configuration.
planner::Freedom freedom_of(const std::string& keep) {
  planner::Freedom freedom;
  if (keep.empty()) return freedom;
  for (const std::string& name : split(keep, ',')) {
    if (name == "placement") {
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
                               "; there are placement, activations, checkpointing, micro_batch, "
                               "chunks and zero"));
    }
  }
  return freedom;
}

planner::Question question_of(const Options& options, const config::Config& config,
                              const cluster::Cluster& cluster, int gpus) {
  planner::Question question;
  question.config = config;
  question.cluster = cluster;
  question.ranks = gpus;
  question.tokens = options.tokens;
  question.search.top = options.top;
  question.search.freedom = freedom_of(options.keep);
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
int published(const Options& options, const config::Config& config,
              const cluster::Cluster& cluster) {
  const auto variant =
      options.cost == "published" ? plan::Published::kAsPublished : plan::Published::kCorrected;
  const plan::PublishedModel model{.width = config.model.width,
                                   .layers = config.model.layers,
                                   .context = config.model.context,
                                   .batch = config.train.batch,
                                   .accumulation = config.train.batch / config.train.micro_batch};
  const std::vector<plan::PublishedChoice> found =
      plan::published_search(model, options.gpus, 1, cluster, variant);
  if (found.empty()) {
    throw ConfigError(concat("the published model has no grid of ", options.gpus,
                             " GPUs: it takes powers of two, and a train.batch that data times z "
                             "divides"));
  }
  TextTable table({"#", "grid", "communication"});
  nlohmann::ordered_json json = {{"cost", options.cost},
                                 {"plans", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < std::min(options.top, found.size()); ++i) {
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
  if (!first || !last || *first < 1 || *last < *first || *last > (1 << 20))
    throw ConfigError(wrong);
  return {static_cast<int>(*first), static_cast<int>(*last)};
}

/// The best plan for each number of GPUs, which doubles from one to the next.
int sweep(const Options& options, const config::Config& config, const cluster::Cluster& cluster) {
  const Range range = parse_sweep(options.sweep);
  const planner::Scaling scaling =
      planner::scale(question_of(options, config, cluster, range.first), range.first, range.last);
  end_progress();
  std::printf("%s", planner::to_text(scaling).c_str());
  if (!options.json.empty()) write_text(options.json, planner::to_json(scaling));
  if (!options.html.empty()) write_text(options.html, planner::to_page(scaling));
  return 0;
}

/// Everything about one grid, beside the best plan.
void explain(const Options& options, const planner::Answer& answer) {
  planner::Question question = answer.question;
  question.config.parallel.sizes = grid::parse_sizes(options.explain);
  const int ranks = grid::Grid(question.config.parallel.sizes).ranks();
  if (ranks != question.ranks) {
    throw ConfigError(concat("--explain ", options.explain, " is a grid of ", ranks,
                             " ranks, and --gpus is ", question.ranks));
  }
  question.search.freedom.grid = false;
  question.search.strategies = {"4d"};
  question.search.top = 1;
  question.search.memory = Bytes(std::numeric_limits<std::int64_t>::max());
  const planner::SearchResult found =
      planner::search(question.config, question.cluster, question.search);
  end_progress();
  if (found.plans.empty()) {
    throw ConfigError(concat("--explain ", options.explain,
                             ": the model or the batch cannot be split over this grid"));
  }
  std::printf("\n%s", planner::explain(answer, found.plans.front()).c_str());
  std::printf("  It is %s than the best.\n",
              planner::difference(answer.found.plans.front(), found.plans.front()).c_str());
}

int run(const Options& options) {
  config::Source source = options.source;
  source.needs_data = false;
  const config::Config config = config::read(source);
  const cluster::Cluster cluster = cluster::load(options.cluster);
  for (const auto& [option, path] :
       {std::pair("--json", options.json), std::pair("--html", options.html),
        std::pair("--write-config", options.write_config)}) {
    if (!path.empty()) check_writable(option, path);
  }
  if (!options.sweep.empty()) return sweep(options, config, cluster);
  if (options.gpus < 1) throw ConfigError("--gpus N is missing: for how many GPUs is the plan?");
  if (options.cost != "full") return published(options, config, cluster);
  const std::vector<std::string> names = options.strategies.empty()
                                             ? std::vector<std::string>{}
                                             : parse_strategies(options.strategies);
  const planner::Answer answer =
      planner::answer(question_of(options, config, cluster, options.gpus), names);
  end_progress();
  planner::check_found(answer);
  std::printf("%s", planner::to_text(answer).c_str());
  if (!options.explain.empty()) explain(options, answer);
  if (!options.json.empty()) write_text(options.json, planner::to_json(answer));
  if (!options.html.empty()) write_text(options.html, planner::to_page(answer));
  if (!options.write_config.empty()) {
    write_text(options.write_config,
               config::to_toml(planner::apply(config, answer.found.plans.front().candidate)));
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  CLI::App* plan = app.add_subcommand(
      "plan", "predicts which configurations train fastest on a cluster, before anything runs");
  add_config_options(*plan, options->source);
  plan->add_option("--cluster", options->cluster,
                   "a cluster by name (" + join(cluster::known_clusters(), ", ") +
                       ") or the file that fourfold calibrate writes")
      ->required();
  plan->add_option("--gpus", options->gpus, "how many devices to use");
  plan->add_option("--top", options->top, "how many plans to show")->capture_default_str();
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
                   "leave these as in CONFIG: placement, activations, checkpointing, micro_batch, "
                   "chunks, zero");
  plan->add_option("--tokens", options->tokens, "how long training on so many tokens takes")
      ->check(CLI::NonNegativeNumber);
  plan->add_option("--write-config", options->write_config, "write the best plan as a CONFIG");
  plan->add_option("--json", options->json, "write the plans to this file as well");
  plan->add_option("--html", options->html, "write a page with pictures to this file");
  plan->callback([options, &command] { command = [options](char**) { return run(*options); }; });
}

}  // namespace fourfold::app
