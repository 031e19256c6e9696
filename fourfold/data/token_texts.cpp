// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/token_texts.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::data {

std::string join_texts(const std::vector<std::string>& texts,
                       std::span<const std::int32_t> tokens) {
  std::string joined;
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= texts.size()) {
      throw ConfigError(
          concat("token ", token, " is not in the tokenizer's vocabulary of ", texts.size()));
    }
    joined += texts[static_cast<std::size_t>(token)];
  }
  return joined;
}

}  // namespace fourfold::data
