// Weights are split over ranks and brought together for each use: ahead of it, where the order of
// uses is known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/overlap.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// Tensors on their way together.
struct Gathered {
  std::vector<Tensor> tensors;
  std::vector<Tensor> sources;
  std::vector<comm::Work> works;  // the last: they go first, and wait before the tensors go

  void wait() {
    for (comm::Work& work : works) work.wait();
  }
};

/// What can be brought together: a weight, or the vectors of a block.
class Gatherable {
 public:
  Gatherable() = default;
  Gatherable(const Gatherable&) = delete;
  Gatherable& operator=(const Gatherable&) = delete;
  virtual ~Gatherable() = default;

  /// Unique in its model, and the same on all ranks.
  virtual std::string gather_name() const = 0;
  /// Nothing to communicate.
  virtual bool is_whole() const = 0;
  virtual std::int64_t gathered_bytes() const = 0;
  /// The shards themselves are still on their way from other ranks.
  virtual bool arriving() const = 0;
  virtual Gathered start_gather() const = 0;
};

/// In which order a pass uses what it gathers.
using GatherOrder = std::vector<const Gatherable*>;

/// Which uses of a pass bring together, and which find what an earlier one has left.
class GatherPlan {
 public:
  GatherPlan() = default;
  /// A use that is followed by another of the same within a few uses leaves it there: its backward
  /// pass follows, or the other one of two `halves` is about to use it. Those whose next use is
  /// further away leave it there as far as `keep` bytes at a time allow, the shortest stays first.
  GatherPlan(GatherOrder order, std::int64_t keep, bool halves = false);

  std::size_t size() const { return order_.size(); }
  const Gatherable& unit(std::size_t use) const { return *order_[use]; }
  /// The use that brings together what use number `use` needs: itself or an earlier one.
  std::size_t origin(std::size_t use) const { return origins_[use]; }
  /// Whether it stays for the next use.
  bool stays(std::size_t use) const { return stays_[use]; }

 private:
  GatherOrder order_;
  std::vector<std::size_t> origins_;
  std::vector<bool> stays_;
};

class GatherAhead {
 public:
  /// At most `window` bytes ahead, or one unit; with `ahead` false none.
  GatherAhead(bool ahead, std::int64_t window) : ahead_(ahead), window_(window) {}

  /// The tensors of a unit, when they are there. In a planned pass the units must come in the
  /// order of the plan; otherwise each is brought together now.
  std::vector<Tensor> take(const Gatherable& unit);

  /// A planned pass begins; with `again` the same follows it, and its first uses are brought
  /// together at the end of this one. The plan must stay until `end_pass`.
  void begin_pass(const GatherPlan& plan, bool again);
  /// All uses must have come.
  void end_pass();
  /// The pass has failed.
  void abandon();

  /// Writes down the names of what is taken from now on; null stops.
  void learn(std::vector<std::string>* names) { names_ = names; }

 private:
  std::vector<Tensor> take_planned(const Gatherable& unit);
  void start(std::size_t use);
  void look_ahead();
  // Uses of the pass that follows count on.
  const Gatherable& unit(std::size_t use) const { return plan_->unit(use % plan_->size()); }
  bool starts(std::size_t use) const;

  bool ahead_;
  std::int64_t window_;
  const GatherPlan* plan_ = nullptr;
  bool again_ = false;
  std::size_t use_ = 0;   // the next to come
  std::size_t next_ = 0;  // the first that has not been looked at whether it is to be started
  std::map<std::size_t, Gathered> there_;  // by the use that started it
  std::vector<std::string>* names_ = nullptr;
};

}  // namespace fourfold::tensor
