// Parameters that lie together in memory and travel at once between the ranks that have the same
// shard of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/nn/parameter.hpp"
#include "fourfold/optim/adamw_kernel.hpp"

namespace fourfold::optim {

using at::Tensor;
using tensor::Mesh;

/// What the ranks that have the same shard of a parameter (ParameterSpec::replicas) keep only a
/// part of: the stages of ZeRO.
enum class Zero {
  kNothing,    ///< each keeps and updates everything: plain data parallelism
  kMoments,    ///< moments and master copies, and each updates its part (ZeRO-1)
  kGradients,  ///< the gradients, too: they are summed after each pass (ZeRO-2)
};

/// Whether a parameter's gradient is finite on a rank. In the part that the rank has the sums of,
/// others' contributions are in it: what is bad there only, others may have caused.
enum class Health { kFinite, kBadInOwnPart, kBad };

/// Parameters of one type and the same replicas. Each lies at a multiple of kAlignment elements in
/// one piece of memory, and their gradients in another.
class FlatGroup {
 public:
  /// Elements; a whole number of cache lines in every type.
  static constexpr std::int64_t kAlignment = 32;

  FlatGroup(const Mesh& mesh, nn::Parameters parameters, double decay, Zero zero);
  FlatGroup(const FlatGroup&) = delete;
  FlatGroup& operator=(const FlatGroup&) = delete;
  ~FlatGroup();

  /// Forgets the gradients. When the last of so many passes has completed all of them, their sum
  /// over the replicas begins by itself.
  void begin_step(std::int64_t passes);
  /// The step ends, with or without an update. Gradients that still come count for nothing.
  void end_step();
  /// Begins the sum if it has not begun.
  void reduce_gradients();
  /// Of a part of the sum, which it waits for: over all replicas, every element counts once.
  double sum_of_squares();

  void update(AdamStep step);
  /// Brings the new values together. The parameters wait for them when they are used next, or with
  /// `overlap.data` off here.
  void gather_values();

  const nn::Parameters& parameters() const { return parameters_; }
  Health health(std::size_t index) const;

 private:
  /// Whether each pass ends with a sum of its own.
  bool sums_passes() const { return zero_ == Zero::kGradients && replicas_ > 1; }
  const comm::Communicator& comm(tensor::Purpose purpose) const;
  comm::Priority priority() const;
  /// This rank's part of a tensor of all elements.
  Tensor part(const Tensor& all) const;
  grid::Range part_range() const;
  /// The part of it that this rank updates.
  Tensor own(const Tensor& all) const { return zero_ == Zero::kNothing ? all : part(all); }
  void expect_values(comm::Work work);
  void place_values();
  void place_gradients();
  void provide_memory();
  void completed(bool last);
  void sum_pass();
  void add_pass(const Tensor& sums);

  const Mesh* mesh_;
  nn::Parameters parameters_;
  std::vector<std::int64_t> begins_;
  double decay_;
  Zero zero_;
  grid::Axes axes_;  // along which ranks have the same
  int replicas_;
  std::int64_t count_ = 0;  // elements, with what lies between and after
  Tensor values_;           // in the type of computation
  Tensor gradients_;        // in the master type; with sums_passes() of the present pass, if any
  // Of this rank's part only, in the master type.
  Tensor own_values_;     // a part of values_ if the types are the same
  Tensor own_gradients_;  // a part of gradients_ unless sums_passes()
  Tensor mean_;
  Tensor square_;
  std::size_t incomplete_ = 0;  // parameters whose gradients are still to come in the last pass
  bool in_step_ = false;
  bool has_sums_ = false;  // of an earlier pass
  bool reducing_ = false;
  comm::Work reduction_;
  std::shared_ptr<nn::Arrival> arrival_;  // of the newest values
};

}  // namespace fourfold::optim
