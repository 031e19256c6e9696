// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/architectures.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "fourfold/base/text.hpp"

namespace fourfold::tensor {

namespace {

struct Architecture {
  bool virtual_code = false;  ///< which the driver compiles
  int number = 0;             ///< 90 for sm_90
  char only = ' ';            ///< 'a': for this one alone, 'f': for its generation alone
};

std::vector<Architecture> parse(const std::string& built_for) {
  std::vector<Architecture> all;
  std::istringstream words(built_for);
  for (std::string word; words >> word;) {
    const std::size_t underline = word.find('_');
    if (underline == std::string::npos) continue;
    Architecture one{.virtual_code = word.starts_with("compute")};
    std::istringstream rest(word.substr(underline + 1));
    rest >> one.number >> one.only;
    all.push_back(one);
  }
  return all;
}

bool has_code_for(const Architecture& one, int major, int minor) {
  const int wanted = 10 * major + minor;
  const bool generation = one.number / 10 == major && one.number % 10 <= minor;
  if (one.only == 'a') return one.number == wanted;
  if (one.only == 'f' || !one.virtual_code) return generation;
  return one.number <= wanted;
}

}  // namespace

bool runs_on(const std::string& built_for, int major, int minor) {
  const std::vector<Architecture> all = parse(built_for);
  return std::any_of(all.begin(), all.end(),
                     [&](const Architecture& one) { return has_code_for(one, major, minor); });
}

std::string name_architectures(const std::string& built_for) {
  std::vector<std::string> names;
  bool newer = false;
  for (const Architecture& one : parse(built_for)) {
    const std::string name =
        concat("sm_", one.number, one.only == ' ' ? std::string() : std::string(1, one.only));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    newer = newer || (one.virtual_code && one.only == ' ');
  }
  return join(names, " and ") + (newer ? ", and newer ones" : "");
}

}  // namespace fourfold::tensor
