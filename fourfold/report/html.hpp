// Text and numbers for HTML and SVG.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::report {

/// Escapes any text, for the content of elements and for quoted attributes.
std::string escaped(std::string_view text);

/// A file within a page, for an attribute: "data:image/png;base64,...".
std::string data_uri(std::string_view type, std::string_view bytes);

/// For coordinates: at most one decimal.
std::string px(double value);

/// For people: up to `digits` significant digits, without trailing zeros.
std::string number(double value, int digits = 4);

}  // namespace fourfold::report
