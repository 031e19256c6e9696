// An answer of the planner as text, JSON and a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/planner/plan.hpp"

namespace fourfold::planner {

/// Tables and lines for a terminal.
std::string to_text(const Answer& answer);
/// Its sentences: what was asked; why the second plan loses; how long training takes and what it
/// costs, if that was asked; how many candidates were tried.
std::string headline(const Answer& answer);
std::string comparison(const Answer& answer);
std::string training_time(const Answer& answer);
std::string searched(const Answer& answer);
/// Everything about one plan: compute, exposed time by axes, memory by class.
std::string explain(const Answer& answer, const Predicted& plan);
std::string to_json(const Answer& answer);
/// A self-contained page of HTML: ranking, memory, and the predicted timeline of the best plan.
std::string to_page(const Answer& answer);

}  // namespace fourfold::planner
