// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <set>

#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"
#include "fourfold/train/bench.hpp"

namespace fourfold::train {

namespace {

using Json = nlohmann::ordered_json;
using tensor::MemoryClass;

std::string number(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// Bytes in MB. It is one number if all ranks have the same.
std::string megabytes(const Extent& bytes) {
  const std::string most = number("%.2f", bytes.largest / 1e6);
  const std::string least = number("%.2f", bytes.smallest / 1e6);
  return most == least ? most : concat(least, "-", most);
}

std::string whole(const Extent& count) {
  const std::string most = number("%.0f", count.largest);
  return count.largest == count.smallest ? most : concat(number("%.0f", count.smallest), "-", most);
}

const Extent& of(const BenchRow& row, MemoryClass kind) {
  return row.memory[static_cast<std::size_t>(kind)];
}

std::string grid_of(const BenchRow& row) {
  std::string text = grid::to_string(row.sizes);
  if (row.passes > 1) text += concat(" /", row.passes);
  return text;
}

/// The axes that compute waits for at least 1% of the step, the longest first.
std::string waits_of(const BenchRow& row) {
  std::vector<std::pair<double, std::string>> waits;
  for (const auto& [axes, share] : row.waits) {
    if (share >= 0.005) waits.emplace_back(-share, axes);
  }
  std::sort(waits.begin(), waits.end());
  std::vector<std::string> texts;
  for (const auto& [share, axes] : waits) {
    texts.push_back(concat(axes, " ", number("%.0f%%", -100 * share)));
  }
  return join(texts, ", ");
}

Json json_of(const Extent& extent) {
  return {{"max", extent.largest}, {"min", extent.smallest}};
}

}  // namespace

namespace {

/// Beside the measured peak, and beside the measured step where that was predicted; empty if
/// nothing was. Where only the memory was, a line says so, if there is a reason.
std::string predictions(const Bench& bench) {
  const auto any = [&](const auto& is_predicted) {
    return std::any_of(bench.rows.begin(), bench.rows.end(), is_predicted);
  };
  const bool times = any([](const BenchRow& row) { return row.predicted > Seconds(); });
  const bool memory = any([](const BenchRow& row) { return row.predicted_peak > Bytes(); });
  std::vector<std::string> head = {"strategy", "grid"};
  if (times) head.insert(head.end(), {"step s", "predicted s", "off"});
  head.insert(head.end(), {"peak MB", "predicted MB"});
  TextTable table(head);
  std::string missing;
  for (const BenchRow& row : bench.rows) {
    if (!row.refused.empty()) continue;
    if (!times && !row.missing.empty()) missing = concat("\n", row.missing, "\n");
    if (times ? !(row.predicted > Seconds()) : !(row.predicted_peak > Bytes())) continue;
    std::vector<std::string> cells = {row.strategy, grid_of(row)};
    if (times) {
      cells.insert(cells.end(),
                   {number("%.3f", row.step.value()), number("%.3f", row.predicted.value()),
                    number("%+.0f%%", 100 * (row.predicted / row.step - 1))});
    }
    cells.push_back(number("%.2f", row.peak.largest / 1e6));
    cells.push_back(number("%.2f", static_cast<double>(row.predicted_peak.value()) / 1e6));
    table.add(cells);
  }
  if (!times && !memory) return missing;
  return concat("\nmeasured and predicted: ", times ? "the step, and " : "",
                "all tensors of the fullest rank\n\n", table.text(), missing);
}

}  // namespace

std::string to_table(const Bench& bench) {
  TextTable main({"strategy", "grid", "step s", "exposed", "sent MB", "messages", "parameters MB",
                  "gradients MB", "optimizer MB", "activations MB", "mfu", "loss", "waits for"});
  std::set<std::string> axes;
  for (const BenchRow& row : bench.rows) {
    if (!row.refused.empty()) continue;
    main.add(
        {row.strategy, grid_of(row), number("%.3f", row.step.value()),
         number("%.0f%%", 100 * row.exposed), megabytes(row.bytes), whole(row.messages),
         megabytes(of(row, MemoryClass::kParameters)), megabytes(of(row, MemoryClass::kGradients)),
         megabytes(of(row, MemoryClass::kOptimizer)), megabytes(of(row, MemoryClass::kActivations)),
         number("%.3f", row.mfu), number("%.10f", row.loss), waits_of(row)});
    for (const auto& [name, bytes] : row.sent) axes.insert(name);
  }
  std::vector<std::string> head = {"strategy", "grid"};
  head.insert(head.end(), axes.begin(), axes.end());
  TextTable by_axes(head);
  for (const BenchRow& row : bench.rows) {
    if (!row.refused.empty()) continue;
    std::vector<std::string> line = {row.strategy, grid_of(row)};
    for (const std::string& name : axes) {
      const auto found = row.sent.find(name);
      line.push_back(found == row.sent.end() ? "" : megabytes(found->second));
    }
    by_axes.add(line);
  }
  std::string refused;
  for (const BenchRow& row : bench.rows) {
    if (!row.refused.empty()) refused += concat(row.strategy, ": ", row.refused, "\n");
  }
  return concat(main.text(), predictions(bench),
                "\nMB that a rank sends in a step, by the axes of the groups\n\n", by_axes.text(),
                refused.empty() ? "" : "\nnot run\n\n", refused);
}

std::string to_json(const Bench& bench, int ranks) {
  Json json = {{"ranks", ranks}, {"gemm_flops_per_second", bench.gemm_flops.value()}};
  json["strategies"] = Json::array();
  for (const BenchRow& row : bench.rows) {
    Json one = {{"strategy", row.strategy}};
    if (!row.refused.empty()) {
      one["refused"] = row.refused;
      json["strategies"].push_back(one);
      continue;
    }
    one["grid"] = {{"x", row.sizes.x},
                   {"y", row.sizes.y},
                   {"z", row.sizes.z},
                   {"data", row.sizes.data},
                   {"pipe", row.sizes.pipe}};
    one["micro_batches"] = row.passes;
    one["chunks"] = row.chunks;
    one["step_seconds"] = row.step.value();
    one["fastest_step_seconds"] = row.fastest.value();
    if (row.predicted > Seconds()) one["predicted_step_seconds"] = row.predicted.value();
    one["exposed_share"] = row.exposed;
    for (const auto& [axes, share] : row.waits) one["exposed_by_axes"][axes] = share;
    one["bytes"] = json_of(row.bytes);
    one["messages"] = json_of(row.messages);
    for (const auto& [name, bytes] : row.sent) one["bytes_by_axes"][name] = json_of(bytes);
    for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
      one["memory"][to_string(static_cast<MemoryClass>(i))] = json_of(row.memory[i]);
    }
    one["peak_bytes"] = json_of(row.peak);
    if (row.predicted_peak > Bytes()) one["predicted_peak_bytes"] = row.predicted_peak.value();
    one["mfu"] = row.mfu;
    one["loss"] = row.loss;
    json["strategies"].push_back(one);
  }
  return json.dump(2) + "\n";
}

}  // namespace fourfold::train
