// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/samples.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/data/permutation.hpp"

namespace fourfold::data {

Samples::Samples(Tokens tokens, std::int64_t context, std::uint64_t seed, std::int64_t vocabulary)
    : tokens_(std::move(tokens)), context_(context), seed_(seed), vocabulary_(vocabulary) {
  FOURFOLD_CHECK(context > 0, "context ", context);
  windows_ = (tokens_.size() - 1) / context;
  if (windows_ < 1) {
    throw ConfigError(concat("there are only ", tokens_.size(), " tokens; a context of ", context,
                             " needs at least ", context, " and one more"));
  }
}

std::int64_t Samples::window_of(std::int64_t sample) const {
  FOURFOLD_CHECK(sample >= 0, "sample ", sample);
  return permute(windows_, seed_, static_cast<std::uint64_t>(sample / windows_), sample % windows_);
}

void Samples::read(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) const {
  read_window(window_of(sample), tokens, targets);
}

void Samples::read_window(std::int64_t window, std::int64_t* tokens, std::int64_t* targets) const {
  FOURFOLD_CHECK(window >= 0 && window < windows_, "window ", window, " of ", windows_);
  tokens_.read(window * context_, context_, tokens);
  std::copy(tokens + 1, tokens + context_, targets);
  tokens_.read(window * context_ + context_, 1, targets + context_ - 1);
  const std::int64_t largest =
      std::max(*std::max_element(tokens, tokens + context_), targets[context_ - 1]);
  if (largest < vocabulary_) return;
  tokens_.slice(window * context_, window * context_ + context_ + 1).check_below(vocabulary_);
}

}  // namespace fourfold::data
