// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/lanes.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

Lane& Lanes::add(const grid::Group& group, int number, schedule::Reach reach, int purpose) {
  FOURFOLD_CHECK(number >= 0 && number < reserved_, "lane ", number, " was not reserved");
  const auto [place, added] = lanes_.try_emplace(number);
  FOURFOLD_CHECK(added, "lane ", number, " exists already, for group ", place->second.group);
  Lane& lane = place->second;
  lane.group = group;
  lane.id = number;
  lane.reach = reach;
  lane.purpose = purpose;
  return lane;
}

const Lane* Lanes::find(int number) const {
  const auto found = lanes_.find(number);
  return found == lanes_.end() ? nullptr : &found->second;
}

}  // namespace fourfold::comm
