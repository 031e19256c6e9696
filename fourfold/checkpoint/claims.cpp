// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/claims.hpp"

#include <charconv>
#include <set>
#include <string_view>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::checkpoint {

std::string name_in(const formats::SafetensorsFolder& files,
                    const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (files.contains(name)) return name;
  }
  return "";
}

std::pair<std::int64_t, std::int64_t> table_shape(const formats::SafetensorsFolder& files,
                                                  const std::vector<std::string>& names,
                                                  const std::string& folder) {
  const std::string found = name_in(files, names);
  if (found.empty()) throw ConfigError(concat("the weights in ", folder, " lack ", names[0]));
  const std::vector<std::int64_t>& shape = files.entry(found).shape;
  if (shape.size() != 2) {
    throw ConfigError(concat(found, " in ", folder, " has the shape [", join(shape, ", "),
                             "], which is no table"));
  }
  return {shape[0], shape[1]};
}

std::int64_t blocks_in(const formats::SafetensorsFolder& files,
                       const std::vector<std::string>& prefixes) {
  std::set<std::int64_t> blocks;
  for (const auto& [name, file] : files.tensors()) {
    for (const std::string& prefix : prefixes) {
      if (!name.starts_with(prefix)) continue;
      const std::string_view rest = std::string_view(name).substr(prefix.size());
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') {
        blocks.insert(number);
      }
    }
  }
  return static_cast<std::int64_t>(blocks.size());
}

}  // namespace fourfold::checkpoint
