// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_peaks.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include "fourfold/train/all_ranks.hpp"

namespace fourfold::train {

namespace {

/// The largest resident size of the process so far.
Bytes peak_rss() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return Bytes(kib * 1024);
  }
  return {};
}

}  // namespace

void gather_peaks(const tensor::Mesh& mesh, const tensor::MemoryUse& peaks, Bytes in_steps,
                  RunMetrics& metrics) {
  const auto largest_bytes = [&](Bytes own) {
    return Bytes(static_cast<std::int64_t>(largest(mesh, static_cast<double>(own.value()))));
  };
  for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
    metrics.memory.by_class[i] = largest_bytes(peaks.by_class[i]);
  }
  metrics.construction = largest_bytes(metrics.construction);
  metrics.peak = std::max(metrics.construction, largest_bytes(in_steps));
  metrics.peak_rss = largest_bytes(peak_rss());
}

}  // namespace fourfold::train
