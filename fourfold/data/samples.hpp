// The order in which training sees its data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fourfold/data/token_file.hpp"

namespace fourfold::data {

/// Tokens cut into windows of `context` tokens and one more, the last target. Each window begins
/// with the last target of the previous one. Samples go through all windows in a random order, then
/// through all again in another order, without end. A sample depends only on its number and the
/// seed. May be used by several threads at once.
class Samples {
 public:
  /// Throws ConfigError when there are not enough tokens for one window. Tokens must be below
  /// `vocabulary`; each token is checked when it is read.
  Samples(Tokens tokens, std::int64_t context, std::uint64_t seed,
          std::int64_t vocabulary = std::numeric_limits<std::int64_t>::max());

  std::int64_t windows() const { return windows_; }
  std::int64_t context() const { return context_; }

  /// The window of sample number `sample` (0, 1, 2, ...).
  std::int64_t window_of(std::int64_t sample) const;

  /// Writes `context` tokens and for each of them the token that follows it. Throws ConfigError
  /// that names the file, the position and the token when a token is not in the vocabulary.
  void read(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) const;

  /// The same for a window in the order of the text, for validation.
  void read_window(std::int64_t window, std::int64_t* tokens, std::int64_t* targets) const;

 private:
  Tokens tokens_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::int64_t vocabulary_;
  std::int64_t windows_;
};

}  // namespace fourfold::data
