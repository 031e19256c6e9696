// The tables of an answer as rows of text, which a terminal and a page show alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/planner/plan.hpp"

namespace fourfold::planner {

struct Rows {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< may be shorter than the head
  std::size_t left = 1;                        ///< so many columns are texts, the others numbers
};

/// The best plans in their order.
Rows ranking_rows(const Answer& answer);
/// The best of each strategy that was asked for, or why there is none.
Rows strategy_rows(const Answer& answer);
/// Why candidates were rejected, and how many.
Rows rejected_rows(const Answer& answer);

/// A number as printf writes it, of less than 48 characters.
std::string formatted(const char* how, double value);
/// "12.3 M", "341 k".
std::string short_number(double value);
/// "33.1%".
std::string percent(double share);

}  // namespace fourfold::planner
