// Rows of text in columns of sufficient width.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fourfold {

class TextTable {
 public:
  /// The first `left` columns are aligned left, the others right.
  explicit TextTable(std::vector<std::string> head, std::size_t left = 2) : left_(left) {
    rows_.push_back(std::move(head));
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  /// One line for each row. Lines have no spaces at their ends.
  std::string text() const;

 private:
  std::size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fourfold
