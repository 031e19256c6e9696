// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/added_finder.hpp"

namespace fourfold::data {

void AddedFinder::add(std::string_view text, std::int32_t token) {
  if (text.empty()) return;
  begins_[static_cast<unsigned char>(text[0])] = true;
  std::size_t node = 0;
  for (const char byte : text) {
    const auto [found, added] = steps_.emplace(step(node, byte), tokens_.size());
    if (added) tokens_.push_back(kNone);
    node = found->second;
  }
  tokens_[node] = token;
}

AddedFinder::Found AddedFinder::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    Found best{.at = at};
    std::size_t node = 0;
    for (std::size_t end = at; end < text.size(); ++end) {
      const auto found = steps_.find(step(node, text[end]));
      if (found == steps_.end()) break;
      node = found->second;
      if (tokens_[node] == kNone) continue;
      best.length = end + 1 - at;
      best.token = tokens_[node];
    }
    if (best.length > 0) return best;
  }
  return {.at = text.size()};
}

}  // namespace fourfold::data
