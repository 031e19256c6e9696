// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "fourfold/base/check.hpp"
#include "fourfold/model/kinds.hpp"
#include "fourfold/train/fitting_grids.hpp"

namespace fourfold::planner {

namespace {

/// What the cluster's devices have; less if the configuration has a lower limit.
Bytes memory_of(const Question& question) {
  constexpr double kGib = 1 << 30;
  const Bytes usable = question.cluster.device.usable();
  const double given = question.config.device.memory_gib;
  return given > 0 ? std::min(usable, Bytes(static_cast<std::int64_t>(given * kGib))) : usable;
}

/// The settings with which a grid needs the least memory, and what it then needs.
struct Least {
  Candidate candidate;
  Bytes memory;
};

/// Of the grid of `found.smallest`, for which the search may know only a lower bound.
Least least_of(const Question& question, const SearchResult& found) {
  config::Config config = question.config;
  config.parallel.sizes = found.smallest->sizes;
  Freedom freedom = question.search.freedom;
  freedom.grid = false;
  const config::Strategy& strategy = config::strategy_of(found.smallest->strategy);
  std::vector<Candidate> all = candidates_of(config, strategy, question.ranks, freedom).list;
  const auto order = [](const Candidate& c) {
    return std::tuple(!c.checkpoint, c.micro_batch, -c.zero,
                      c.activations == config::Activations::kReplicated, c.chunks);
  };
  const Candidate least =
      all.empty()
          ? *found.smallest
          : *std::min_element(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
              return order(a) < order(b);
            });
  const Bytes memory = Evaluation(question.config, least).memory();
  if (memory >= found.smallest_memory) return {least, memory};
  return {*found.smallest, found.smallest_memory};
}

/// More devices if the cluster has them, and bf16 if that needs less.
std::string what_would_help(const Question& question, const Least& least) {
  constexpr double kMostTimes = 64;
  std::string help;
  const cluster::Cluster& cluster = question.cluster;
  const double times = std::ceil(least.memory / question.search.memory);
  const double ranks = times * question.ranks;
  const double most = cluster.hosts ? static_cast<double>(*cluster.hosts) * cluster.gpus_per_host
                                    : kMostTimes * question.ranks;
  if (ranks <= most) help = concat("; about ", std::llround(ranks), " GPUs would do");
  if (question.config.train.precision != config::Precision::kBf16) {
    config::Config changed = question.config;
    changed.train.precision = config::Precision::kBf16;
    const Bytes memory = Evaluation(changed, least.candidate).memory();
    if (memory < least.memory) {
      help += concat("; with train.precision = \"bf16\" it needs ", memory);
    }
  }
  return help.empty() ? "; a smaller model or devices with more memory would help" : help;
}

Answer::ByName best_of(const Question& question, const std::string& name) {
  SearchSpec spec = question.search;
  spec.strategies = {name};
  spec.top = 1;
  const SearchResult found = search(question.config, question.cluster, spec);
  if (!found.plans.empty()) return {name, found.plans.front(), {}};
  const grid::Sizes& kept = question.config.parallel.sizes;
  if (!spec.freedom.grid && !config::has_sizes(config::strategy_of(name), kept)) {
    return {name, {}, concat("does not have the grid ", kept)};
  }
  if (found.smallest) {
    return {
        name, {}, concat("needs ", least_of(question, found).memory, " a rank, of ", spec.memory)};
  }
  return {name, {}, concat("has no grid of ", question.ranks, " ranks for this model and batch")};
}

bool has_candidates(const Question& question, int ranks) {
  for (const std::string& name : question.search.strategies) {
    const config::Strategy& strategy = config::strategy_of(name);
    if (!candidates_of(question.config, strategy, ranks, question.search.freedom).list.empty()) {
      return true;
    }
  }
  return false;
}

/// The nearest numbers of ranks that the model can be split over, as advice.
std::string ranks_that_work(const Question& question) {
  constexpr int kTries = 64;
  std::vector<std::string> found;
  const auto try_from = [&](int step) {
    int ranks = question.ranks;
    for (int i = 0; i < kTries && ranks + step >= 1; ++i) {
      ranks += step;
      if (!has_candidates(question, ranks)) continue;
      found.push_back(std::to_string(ranks));
      return;
    }
  };
  try_from(-1);
  try_from(1);
  if (found.empty()) return "choose another --gpus or train.batch";
  return concat("--gpus ", join(found, " or "), " or another train.batch would do");
}

/// The search on the grid to explain only.
SearchSpec explaining(const Question& question) {
  SearchSpec spec = question.search;
  spec.freedom.grid = false;
  spec.strategies = {"4d"};
  spec.top = 1;
  return spec;
}

/// Throws ConfigError unless the model can be split over the grid to explain.
void check_explain(const Question& question) {
  if (!question.explain) return;
  const grid::Sizes& sizes = *question.explain;
  const int ranks = grid::Grid(sizes).ranks();
  if (ranks != question.ranks) {
    throw ConfigError(concat("--explain ", sizes, " is a grid of ", ranks, " ranks, and --gpus is ",
                             question.ranks));
  }
  config::Config config = question.config;
  config.parallel.strategy = "4d";
  config.parallel.sizes = sizes;
  const Freedom freedom = explaining(question).freedom;
  if (!candidates_of(config, config::strategy_of("4d"), ranks, freedom).list.empty()) return;
  const std::string why = train::misfit(config, train::choice_of(config, sizes));
  throw ConfigError(
      concat("--explain ", sizes, ": ",
             why.empty() ? "the model or the batch cannot be split over this grid" : why));
}

/// The best that fits; if nothing fits, the best of all.
std::optional<Predicted> explained(const Question& question) {
  if (!question.explain) return std::nullopt;
  config::Config config = question.config;
  config.parallel.sizes = *question.explain;
  SearchSpec spec = explaining(question);
  SearchResult found = search(config, question.cluster, spec);
  if (found.plans.empty()) {
    spec.memory = Bytes(std::numeric_limits<std::int64_t>::max());
    found = search(config, question.cluster, spec);
  }
  return found.plans.front();
}

}  // namespace

void check_ranks(std::int64_t ranks) {
  if (ranks < 1) throw ConfigError(concat("--gpus must be at least 1, not ", ranks));
  if (ranks > kMostRanks) {
    throw ConfigError(concat("--gpus must be at most ", kMostRanks, ", not ", ranks));
  }
}

std::string larger_than_it_is(const cluster::Cluster& cluster, std::int64_t ranks) {
  if (!cluster.hosts) return {};
  const std::int64_t most = std::int64_t{*cluster.hosts} * cluster.gpus_per_host;
  if (ranks <= most) return {};
  return concat(cluster.name, " has ", most, " devices (", *cluster.hosts,
                *cluster.hosts == 1 ? " host with " : " hosts with ", cluster.gpus_per_host,
                " each); this is for a larger one of its kind");
}

Figures Answer::figures_of(const Predicted& plan) const {
  const double seconds = plan.step.value();
  const auto dtype =
      question.config.train.precision == config::Precision::kBf16      ? schedule::DType::kBF16
      : question.config.train.precision == config::Precision::kFloat64 ? schedule::DType::kF64
                                                                       : schedule::DType::kF32;
  Figures figures;
  figures.mfu = model_flops.value() /
                (seconds * question.ranks * question.cluster.device.peak(dtype).value());
  figures.units_a_second = static_cast<double>(units) / seconds;
  if (question.tokens > 0) {
    figures.days = question.tokens / figures.units_a_second / 86400;
    figures.price =
        figures.days * 24 * question.ranks * question.cluster.price_per_gpu_hour.value_or(0);
  }
  return figures;
}

Answer answer(Question question, const std::vector<std::string>& names) {
  check_ranks(question.ranks);
  question.search.ranks = question.ranks;
  question.search.memory = memory_of(question);
  check_explain(question);
  const model::ModelPtr model = model::model_of(question.config);
  Answer result;
  result.parameters = model->parameter_count();
  result.model_flops = model->flops(question.config.train.batch);
  const std::int64_t batch = question.config.train.batch;
  result.units = question.config.model.has_images() ? batch : model->terms(batch);
  if (!question.search.known) {
    question.search.known = std::make_shared<Predictions>(question.config, question.cluster);
  }
  result.found = search(question.config, question.cluster, question.search);
  for (const std::string& name : names) result.by_name.push_back(best_of(question, name));
  result.explained = explained(question);
  result.question = std::move(question);
  return result;
}

void check_found(const Answer& answer) {
  const SearchResult& found = answer.found;
  if (!found.plans.empty()) return;
  const Question& question = answer.question;
  if (!found.smallest) {
    throw ConfigError(
        concat("no grid of ", question.ranks, " ranks fits this model with a batch of ",
               question.config.train.batch, ": ", model::model_of(question.config)->sizes(),
               " must be divided, and the batch by data times z; ", ranks_that_work(question)));
  }
  const Least least = least_of(question, found);
  const Bytes room = question.search.memory;
  throw ConfigError(concat("nothing fits: ", to_string(least.candidate), " needs the least, ",
                           least.memory, " a rank, and a device has ", room, ": ",
                           least.memory - room, " are missing", what_would_help(question, least)));
}

std::string difference(const Predicted& first, const Predicted& second) {
  const double longer = (second.step - first.step).value();
  std::map<std::string, double> parts;
  for (const auto& [axes, time] : second.exposed_by_axes)
    parts["exposed along " + axes] += time.value();
  for (const auto& [axes, time] : first.exposed_by_axes)
    parts["exposed along " + axes] -= time.value();
  parts["compute"] = (second.compute - first.compute).value();
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, time] : parts) {
    if (std::abs(time) >= 0.05 * std::max(longer, 1e-3 * first.step.value())) {
      order.emplace_back(time, name);
    }
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  if (order.size() > 3) order.resize(3);
  std::vector<std::string> texts;
  for (const auto& [time, name] : order) {
    texts.push_back(concat(Seconds(std::abs(time)), time > 0 ? " more " : " less ", name));
  }
  const std::string why = texts.empty() ? "" : concat(": ", join(texts, ", "));
  if (longer < 1e-3 * first.step.value()) return "as fast" + why;
  return concat(Seconds(longer), " slower", why);
}

}  // namespace fourfold::planner
