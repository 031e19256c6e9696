// Text and numbers for HTML and SVG.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::report {

/// The text as it is, whatever is in it: for the content of elements and for quoted attributes.
std::string escaped(std::string_view text);

/// For coordinates: one decimal at most.
std::string px(double value);

/// For people: up to `digits` significant ones, without zeros at the end.
std::string number(double value, int digits = 4);

}  // namespace fourfold::report
