// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/plan.hpp"

#include <algorithm>
#include <cmath>

#include "fourfold/base/check.hpp"
#include "fourfold/model/kinds.hpp"

namespace fourfold::planner {

namespace {

/// What the cluster's devices have; less if the configuration has a lower limit.
Bytes memory_of(const Question& question) {
  constexpr double kGib = 1 << 30;
  const Bytes usable = question.cluster.device.usable();
  const double given = question.config.device.memory_gib;
  return given > 0 ? std::min(usable, Bytes(static_cast<std::int64_t>(given * kGib))) : usable;
}

void check_ranks(const Question& question) {
  const cluster::Cluster& cluster = question.cluster;
  if (question.ranks < 1)
    throw ConfigError(concat("--gpus must be at least 1, not ", question.ranks));
  if (cluster.hosts && question.ranks > *cluster.hosts * cluster.gpus_per_host) {
    throw ConfigError(concat("--gpus ", question.ranks, ": ", cluster.name, " has ",
                             *cluster.hosts * cluster.gpus_per_host, " (", *cluster.hosts,
                             " hosts with ", cluster.gpus_per_host, " each)"));
  }
}

Answer::ByName best_of(const Question& question, const std::string& name) {
  SearchSpec spec = question.search;
  spec.strategies = {name};
  spec.top = 1;
  const SearchResult found = search(question.config, question.cluster, spec);
  if (!found.plans.empty()) return {name, found.plans.front(), {}};
  if (found.smallest) {
    return {name, {}, concat("needs ", found.smallest_memory, " a rank, of ", spec.memory)};
  }
  return {name, {}, concat("has no grid of ", question.ranks, " ranks for this model and batch")};
}

}  // namespace

Figures Answer::figures_of(const Predicted& plan) const {
  const double seconds = plan.step.value();
  const auto dtype =
      question.config.train.precision == config::Precision::kBf16      ? schedule::DType::kBF16
      : question.config.train.precision == config::Precision::kFloat64 ? schedule::DType::kF64
                                                                       : schedule::DType::kF32;
  Figures figures;
  figures.mfu = model_flops.value() /
                (seconds * question.ranks * question.cluster.device.peak(dtype).value());
  figures.terms_a_second = static_cast<double>(terms) / seconds;
  if (question.tokens > 0) {
    figures.days = question.tokens / figures.terms_a_second / 86400;
    figures.price =
        figures.days * 24 * question.ranks * question.cluster.price_per_gpu_hour.value_or(0);
  }
  return figures;
}

Answer answer(Question question, const std::vector<std::string>& names) {
  check_ranks(question);
  question.search.ranks = question.ranks;
  question.search.memory = memory_of(question);
  const model::ModelPtr model = model::model_of(question.config);
  Answer result;
  result.parameters = model->parameter_count();
  result.model_flops = model->flops(question.config.train.batch);
  result.terms = model->terms(question.config.train.batch);
  if (!question.search.known) {
    question.search.known = std::make_shared<Predictions>(question.config, question.cluster);
  }
  result.found = search(question.config, question.cluster, question.search);
  for (const std::string& name : names) result.by_name.push_back(best_of(question, name));
  result.question = std::move(question);
  return result;
}

void check_found(const Answer& answer) {
  const SearchResult& found = answer.found;
  if (!found.plans.empty()) return;
  const Question& question = answer.question;
  if (!found.smallest) {
    throw ConfigError(concat(
        "no grid of ", question.ranks, " ranks fits this model with a batch of ",
        question.config.train.batch, ": ", model::model_of(question.config)->sizes(),
        " must be divided, and the batch by data times z; choose another --gpus or train.batch"));
  }
  const Bytes missing = found.smallest_memory - question.search.memory;
  const double more = static_cast<double>(found.smallest_memory.value()) /
                      static_cast<double>(question.search.memory.value());
  throw ConfigError(concat("nothing fits: ", to_string(*found.smallest), " needs the least, ",
                           found.smallest_memory, " a rank, and a device has ",
                           question.search.memory, ": ", missing, " are missing; about ",
                           static_cast<int>(std::ceil(more * question.ranks)),
                           " GPUs, a smaller train.batch or a device with more memory would help"));
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
  if (longer < 1e-3 * first.step.value())
    return "as fast" + (texts.empty() ? "" : ": " + join(texts, ", "));
  return concat(Seconds(longer), " longer", texts.empty() ? "" : ": ", join(texts, ", "));
}

}  // namespace fourfold::planner
