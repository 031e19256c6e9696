// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/doubling.hpp"

#include <utility>

#include "fourfold/comm/arithmetic.hpp"
#include "fourfold/comm/round.hpp"

namespace fourfold::comm {

namespace {

class DoublingAllReduce final : public Operation {
 public:
  DoublingAllReduce(const schedule::Collective& collective, const View& data, const Port& port,
                    ScratchPool& scratch)
      : index_(port.index()),
        collective_(collective),
        data_(static_cast<std::byte*>(data.data)),
        other_(scratch.take(collective.payload().value())),
        round_(collective, port) {
    const schedule::DoublingPlace place = schedule::doubling_place(port.size(), index_);
    if (!place.in_core(index_)) {
      steps_ = {{place.partner, true, false}, {place.partner, false, true}};
      return;
    }
    if (place.partner >= 0) steps_.push_back({place.partner, false, true});
    for (int bit = 1; bit < place.core; bit *= 2) steps_.push_back({index_ ^ bit, true, true});
    if (place.partner >= 0) steps_.push_back({place.partner, true, false});
    sums_ = true;
  }

  bool advance() override {
    for (; at_ < steps_.size(); ++at_, started_ = false) {
      const Step& step = steps_[at_];
      if (!std::exchange(started_, true)) start(step);
      if (!round_.advance()) return false;
      if (sums_ && step.receives) add(step);
    }
    return true;
  }

  int awaited() const override { return at_ < steps_.size() ? round_.awaited() : -1; }

 private:
  struct Step {
    int peer = 0;
    bool sends = false;
    bool receives = false;
  };

  void start(const Step& step) {
    // A rank outside of the core receives the finished result.
    std::byte* target = sums_ ? other_.data() : data_;
    round_.start({data_, step.sends ? collective_.count : 0, step.peer},
                 {target, step.receives ? collective_.count : 0, step.peer});
  }

  void add(const Step& step) {
    const std::byte* low = index_ < step.peer ? data_ : other_.data();
    const std::byte* high = index_ < step.peer ? other_.data() : data_;
    combine(data_, low, high, collective_.count, collective_.dtype, collective_.reduce);
  }

  int index_;
  schedule::Collective collective_;
  std::byte* data_;
  ScratchPool::Block other_;
  Round round_;
  std::vector<Step> steps_;
  std::size_t at_ = 0;
  bool started_ = false;
  bool sums_ = false;  // whether this rank belongs to the core
};

}  // namespace

OperationPtr make_doubling_all_reduce(const schedule::Collective& collective, const View& data,
                                      const Port& port, ScratchPool& scratch) {
  return std::make_unique<DoublingAllReduce>(collective, data, port, scratch);
}

}  // namespace fourfold::comm
