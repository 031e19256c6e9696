// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/accuracy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "fourfold/base/check.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::train {

namespace {

/// The place of each number in the sorted list, counted from 0; equal numbers share their mean.
std::vector<double> ranks_of(const std::vector<double>& numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> ranks(numbers.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && numbers[order[end]] == numbers[order[first]]) ++end;
    const double mean = 0.5 * static_cast<double>(first + end - 1);
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = mean;
    first = end;
  }
  return ranks;
}

/// Pearson's correlation. It is 1 where one of the lists is constant: nothing contradicts then.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto mean = [](const std::vector<double>& list) {
    return std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
  };
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double both = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  const double scale = std::sqrt(square_a * square_b);
  return scale > 0 ? both / scale : 1;
}

}  // namespace

Accuracy accuracy_of(const std::vector<PredictedAndMeasured>& pairs) {
  FOURFOLD_CHECK(pairs.size() >= 2);
  std::vector<double> predicted;
  std::vector<double> measured;
  std::vector<double> errors;
  for (const PredictedAndMeasured& pair : pairs) {
    FOURFOLD_CHECK(pair.predicted > 0 && pair.measured > 0);
    predicted.push_back(pair.predicted);
    measured.push_back(pair.measured);
    errors.push_back(std::abs(pair.predicted / pair.measured - 1));
  }
  std::sort(errors.begin(), errors.end());
  const std::size_t middle = errors.size() / 2;
  Accuracy accuracy;
  accuracy.rank_correlation = correlation(ranks_of(predicted), ranks_of(measured));
  accuracy.median_error =
      errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
  accuracy.worst_error = errors.back();
  const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  accuracy.choice = measured[static_cast<std::size_t>(chosen)] /
                    *std::min_element(measured.begin(), measured.end());
  return accuracy;
}

std::string to_string(const Accuracy& accuracy, std::size_t plans) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(),
                "%zu plans: rank correlation %.3f, median error %.1f%%, worst %.1f%%; the plan "
                "that was predicted to be the fastest takes %.3f times as long as the fastest",
                plans, accuracy.rank_correlation, 100 * accuracy.median_error,
                100 * accuracy.worst_error, accuracy.choice);
  return text.data();
}

}  // namespace fourfold::train
