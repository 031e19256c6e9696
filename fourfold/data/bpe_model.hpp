// A byte-level BPE as plain values, whichever files it comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::data {

/// `left` followed by `right` becomes `result`.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;

  bool operator==(const Merge&) const = default;
};

/// A token whose text is found in a text before the rest is cut into words.
struct AddedToken {
  std::int32_t token = 0;
  bool learned = false;  ///< it is in the vocabulary of the merges as well
  bool late = false;     ///< it is looked for only in what the other added tokens leave over

  bool operator==(const AddedToken&) const = default;
};

/// Checked by its readers: every byte is a learned token, the texts of learned tokens differ, every
/// merge joins two learned tokens to the learned token of their joined text, and no pair of tokens
/// is merged twice.
struct BpeModel {
  std::vector<std::string> texts;   ///< the bytes of each token
  std::vector<Merge> merges;        ///< in the order of priority
  std::vector<AddedToken> added;    ///< with different texts
  std::vector<std::string> splits;  ///< patterns for WordCutter
  bool whole_words = false;  ///< a word that is a learned token becomes it, whatever the merges say
  bool space_before = false;  ///< a text that does not begin with a space gets one
  std::int32_t end_of_text = -1;
  std::int32_t begin_of_text = -1;

  bool operator==(const BpeModel&) const = default;
};

}  // namespace fourfold::data
