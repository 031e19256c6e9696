// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/text_table.hpp"

#include <algorithm>

#include "fourfold/base/text.hpp"

namespace fourfold {

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += i < left_ ? row[i] + space : space + row[i];
      line += "  ";
    }
    text += std::string(trim(" " + line)) + "\n";
  }
  return text;
}

}  // namespace fourfold
