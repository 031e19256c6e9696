// Gathers weights, which are split over ranks, for each use. Where the order of uses is known,
// weights are gathered ahead of their use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/overlap.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// Tensors that are being gathered.
struct Gathered {
  std::vector<Tensor> tensors;
  std::vector<Tensor> sources;
  std::vector<comm::Work> works;  // last member: destroyed first, and wait before tensors are freed

  void wait() {
    for (comm::Work& work : works) work.wait();
  }
};

/// Something that can be gathered: a weight, or the vectors of a block.
class Gatherable {
 public:
  Gatherable() = default;
  Gatherable(const Gatherable&) = delete;
  Gatherable& operator=(const Gatherable&) = delete;
  virtual ~Gatherable() = default;

  /// A name that is unique in the model, and the same on all ranks.
  virtual std::string gather_name() const = 0;
  /// Whether this rank has all of it, so that there is nothing to communicate.
  virtual bool is_whole() const = 0;
  virtual std::int64_t gathered_bytes() const = 0;
  /// Whether the shards themselves are still being received from other ranks.
  virtual bool arriving() const = 0;
  virtual Gathered start_gather() const = 0;
};

/// The order in which a pass uses what it gathers.
using GatherOrder = std::vector<const Gatherable*>;

/// Says which uses of a pass gather, and which reuse what an earlier use has kept.
class GatherPlan {
 public:
  GatherPlan() = default;
  /// A use that is followed by another use of the same unit within a few uses keeps the unit: the
  /// backward pass follows, or the other one of two `halves` is about to use it. A use whose next
  /// use is further away keeps the unit if at most `keep` bytes are kept at a time; the shortest
  /// stays are chosen first.
  GatherPlan(GatherOrder order, std::int64_t keep, bool halves = false);

  std::size_t size() const { return order_.size(); }
  const Gatherable& unit(std::size_t use) const { return *order_[use]; }
  /// The use that gathers what use number `use` needs: `use` itself or an earlier one.
  std::size_t origin(std::size_t use) const { return origins_[use]; }
  /// Whether the gathered unit is kept for its next use.
  bool stays(std::size_t use) const { return stays_[use]; }

 private:
  GatherOrder order_;
  std::vector<std::size_t> origins_;
  std::vector<bool> stays_;
};

class GatherAhead {
 public:
  /// Gathers at most `window` bytes ahead, or one unit. If `ahead` is false, nothing is gathered
  /// ahead.
  GatherAhead(bool ahead, std::int64_t window) : ahead_(ahead), window_(window) {}

  /// Waits for the tensors of a unit and returns them. In a planned pass the units must come in the
  /// order of the plan. Without a plan each unit is gathered now.
  std::vector<Tensor> take(const Gatherable& unit);

  /// Begins a planned pass. If `again` is true, the same pass follows, and its first units are
  /// gathered at the end of this pass. The plan must live until `end_pass`.
  void begin_pass(const GatherPlan& plan, bool again);
  /// Ends the pass. All uses of the plan must have come.
  void end_pass();

  /// Records the names of the units that are taken from now on. A null pointer stops this.
  void learn(std::vector<std::string>* names) { names_ = names; }

 private:
  std::vector<Tensor> take_planned(const Gatherable& unit);
  void start(std::size_t use);
  void look_ahead();
  // Uses of the following pass have numbers that continue those of this pass.
  const Gatherable& unit(std::size_t use) const { return plan_->unit(use % plan_->size()); }
  bool starts(std::size_t use) const;

  bool ahead_;
  std::int64_t window_;
  const GatherPlan* plan_ = nullptr;
  bool again_ = false;
  std::size_t use_ = 0;   // the next use to come
  std::size_t next_ = 0;  // the first use that has not been considered for an early start
  std::map<std::size_t, Gathered> there_;  // by the use that started the gather
  std::vector<std::string>* names_ = nullptr;
};

}  // namespace fourfold::tensor
