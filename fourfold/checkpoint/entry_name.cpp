// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/entry_name.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/formats/refuse_file.hpp"

namespace fourfold::checkpoint {

std::vector<std::int64_t> shape_of(const grid::Block& block) {
  std::vector<std::int64_t> shape;
  for (const grid::Range& range : block.ranges) shape.push_back(range.size());
  return shape;
}

std::string to_text(const EntryName& entry) {
  std::vector<std::string> ranges;
  for (const grid::Range& range : entry.block.ranges) {
    ranges.push_back(concat(range.begin, ":", range.end));
  }
  return concat(entry.name, "/", join(ranges, ","));
}

EntryName parse_entry(const formats::TensorEntry& entry, const std::string& path) {
  const auto refuse = [&] {
    formats::refuse_file(path, concat(formats::in_quotes(entry.name),
                                      " is not the name of a part of a tensor of that shape"));
  };
  const std::size_t slash = entry.name.rfind('/');
  if (slash == std::string::npos) refuse();
  EntryName result{entry.name.substr(0, slash), {}};
  for (const std::string& range : split(entry.name.substr(slash + 1), ',')) {
    const std::size_t colon = range.find(':');
    if (colon == std::string::npos) refuse();
    const auto begin = parse_int(std::string_view(range).substr(0, colon));
    const auto end = parse_int(std::string_view(range).substr(colon + 1));
    if (!begin || !end || *begin < 0 || *end < *begin) refuse();
    result.block.ranges.push_back({*begin, *end});
  }
  if (result.block.ranges.empty() || shape_of(result.block) != entry.shape) refuse();
  return result;
}

}  // namespace fourfold::checkpoint
