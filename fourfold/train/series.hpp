// Entries for the steps of a run of any length, in bounded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fourfold/base/check.hpp"

namespace fourfold::train {

/// The most entries of a series that are kept.
inline constexpr std::size_t kMostEntries = 4096;

/// Keeps every entry of a short series. Of a longer series it keeps the first entry, and the means
/// of each 2, 4, 8, ... further entries, so that the whole series is covered by at most
/// kMostEntries. An `Entry` has `count`, the number of original entries that it stands for, and
/// `merge`, which makes it the mean of itself and a later one.
template <class Entry>
class Series {
 public:
  void add(const Entry& entry) {
    last_ = entry;
    if (entries_.size() == kMostEntries && is_full(entries_.back())) halve();
    if (entries_.size() > 1 && !is_full(entries_.back())) {
      entries_.back().merge(entry);
    } else {
      entries_.push_back(entry);
    }
  }

  bool empty() const { return entries_.empty(); }
  /// The entries from the first to the last.
  const std::vector<Entry>& entries() const { return entries_; }
  /// The last entry that was added, not merged.
  const Entry& last() const {
    FOURFOLD_CHECK(!empty(), "nothing has happened yet");
    return last_;
  }

 private:
  bool is_full(const Entry& entry) const { return entry.count >= stride_; }

  /// Merges every two neighbours after the first entry.
  void halve() {
    std::size_t kept = 1;
    for (std::size_t i = 1; i < entries_.size(); i += 2) {
      Entry pair = std::move(entries_[i]);
      if (i + 1 < entries_.size()) pair.merge(entries_[i + 1]);
      entries_[kept++] = std::move(pair);
    }
    entries_.resize(kept);
    stride_ *= 2;
  }

  std::vector<Entry> entries_;
  Entry last_{};
  std::int64_t stride_ = 1;  // how many originals an entry after the first stands for
};

}  // namespace fourfold::train
