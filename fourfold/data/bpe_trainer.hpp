// Learns a BPE from text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/data/tokenizer.hpp"

namespace fourfold::data {

/// Collects text, then learns a vocabulary from it. The same text always gives the same model.
class BpeTrainer {
 public:
  /// Limits on memory and time. All added text is held until the end.
  static constexpr std::int64_t kMostBytes = 100'000'000;
  static constexpr std::size_t kMostSentences = 10'000'000;

  explicit BpeTrainer(std::int64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  /// Adds UTF-8, cut between lines where possible: nothing is learnt across a cut. Text beyond the
  /// limits is left out.
  void add(std::string_view text);

  /// Throws ConfigError when the text is too short or too varied for the size, and says which sizes
  /// work. 256 of the tokens are bytes. Two more mark unknown characters, which never occur, and
  /// the end of a text.
  std::unique_ptr<Tokenizer> train(std::int64_t vocabulary) const;

 private:
  void add_line(std::string_view line);

  std::int64_t most_bytes_;
  std::vector<std::string> sentences_;
  std::int64_t bytes_ = 0;
};

}  // namespace fourfold::data
