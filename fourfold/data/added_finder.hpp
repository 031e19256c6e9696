// Finds added tokens in a text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fourfold::data {

/// Of several texts that begin at the same place, the longest is found. A search takes at most the
/// length of the longest text at each place.
class AddedFinder {
 public:
  void add(std::string_view text, std::int32_t token);

  struct Found {
    std::size_t at = 0;
    std::size_t length = 0;  ///< 0 if nothing is found; `at` is then the text's size
    std::int32_t token = -1;
  };

  /// The first token at or behind `from`.
  Found find(std::string_view text, std::size_t from) const;

  /// Calls `use_token(token)` and `use_text(between tokens)` in the order of the text.
  template <class UseToken, class UseText>
  void split(std::string_view text, const UseToken& use_token, const UseText& use_text) const {
    for (std::size_t at = 0; at < text.size();) {
      const Found found = find(text, at);
      if (found.at > at) use_text(text.substr(at, found.at - at));
      if (found.length > 0) use_token(found.token);
      at = found.at + found.length;
    }
  }

 private:
  static constexpr std::int32_t kNone = -1;

  static std::uint64_t step(std::size_t node, char byte) {
    return (static_cast<std::uint64_t>(node) << 8U) | static_cast<unsigned char>(byte);
  }

  // A tree of the texts' beginnings: node 0 is the empty one.
  std::unordered_map<std::uint64_t, std::size_t> steps_;  // to the node that is a byte longer
  std::vector<std::int32_t> tokens_ = {kNone};            // of the nodes that are whole texts
  std::array<bool, 256> begins_{};                        // whether a text begins with the byte
};

}  // namespace fourfold::data
