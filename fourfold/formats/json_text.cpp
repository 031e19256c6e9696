// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/json_text.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::formats {

std::string json_string(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw InvariantError(concat(in_quotes(text), " is not UTF-8"));
  }
}

void StrictSax::parse(std::string_view text) {
  // These files have no byte order marks and no comments.
  if (!text.starts_with('{')) refuse("its JSON does not begin with '{'");
  // The parser takes a zero for the end and would ignore what follows.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    refuse(concat("byte ", zero, " of its JSON is zero"));
  }
  nlohmann::json::sax_parse(text.begin(), text.end(), this);
}

bool StrictSax::parse_error(std::size_t position, const std::string&,
                            const nlohmann::detail::exception&) {
  refuse(concat("its JSON is broken at byte ", position));
}

void StrictSax::unexpected(std::string_view value) const {
  refuse(concat(place(), " cannot be ", value));
}

}  // namespace fourfold::formats
