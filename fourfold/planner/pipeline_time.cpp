// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/pipeline_time.hpp"

#include <algorithm>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/train/pipeline_order.hpp"

namespace fourfold::planner {

using train::Unit;

namespace {

constexpr double kNotYet = -1;

class Places {
 public:
  Places(const std::vector<UnitTime>& times, int chunks, std::int64_t passes)
      : times_(&times),
        count_(static_cast<int>(times.size())),
        stages_(count_ * chunks),
        passes_(passes) {
    for (int place = 0; place < count_; ++place) {
      places_.push_back({.units = train::pipeline_units(count_, place, chunks, passes)});
    }
    for (std::vector<double>& ends : ends_) {
      ends.assign(static_cast<std::size_t>(stages_ * passes), kNotYet);
    }
  }

  double run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (int place = 0; place < count_; ++place) {
        while (advance(place)) changed = true;
      }
    }
    double end = 0;
    for (const Place& place : places_) {
      FOURFOLD_CHECK_EQ(place.next, place.units.size(), "the units of a pipeline stand still");
      end = std::max(end, place.free);
    }
    return end;
  }

 private:
  struct Place {
    std::vector<Unit> units;
    std::size_t next = 0;
    double began = 0;  ///< the last unit
    double free = 0;
    double arrived[2] = {0, 0};  ///< the last result that came forward, and backward
  };

  const UnitTime& time_of(int place) const { return (*times_)[static_cast<std::size_t>(place)]; }

  double& end_of(bool forward, int stage, std::int64_t micro_batch) {
    return ends_[forward ? 1 : 0][static_cast<std::size_t>(stage * passes_ + micro_batch)];
  }

  /// Runs the next unit of the place, if what it needs has been computed.
  bool advance(int index) {
    Place& place = places_[static_cast<std::size_t>(index)];
    if (place.next == place.units.size()) return false;
    const Unit& unit = place.units[place.next];
    const int stage = unit.chunk * count_ + index;
    const int before = unit.forward ? stage - 1 : stage + 1;
    double begin = place.free;
    if (before >= 0 && before < stages_) {
      const double sent = end_of(unit.forward, before, unit.micro_batch);
      if (sent == kNotYet) return false;
      double& arrived = place.arrived[unit.forward ? 1 : 0];
      const int hop = unit.forward ? (index + count_ - 1) % count_ : index;
      arrived = std::max({sent, place.began, arrived}) + time_of(hop).send;
      begin = std::max(begin, arrived);
    }
    place.began = begin;
    place.free = begin + (unit.forward ? time_of(index).forward : time_of(index).backward);
    end_of(unit.forward, stage, unit.micro_batch) = place.free;
    ++place.next;
    return true;
  }

  const std::vector<UnitTime>* times_;
  int count_;
  int stages_;
  std::int64_t passes_;
  std::vector<Place> places_;
  std::vector<double> ends_[2];  // of backward and forward units, by stage and micro-batch
};

}  // namespace

double pipeline_time(const std::vector<UnitTime>& places, int chunks, std::int64_t passes) {
  return Places(places, chunks, passes).run();
}

}  // namespace fourfold::planner
