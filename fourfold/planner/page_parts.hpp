// What the pages of plans and of scaling have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/planner/plan_rows.hpp"

namespace fourfold::planner {

std::string section(const std::string& title, const std::string& content);

/// A row that is only a name and a reason gets the reason over the width of the figures.
std::string table_of(const std::string& id, const Rows& rows);

/// A page without network access or scripts, in the style of the report of a run.
std::string document(const std::string& title, const std::string& about, const std::string& content,
                     const std::string& command);

}  // namespace fourfold::planner
