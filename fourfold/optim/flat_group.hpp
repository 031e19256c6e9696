// Parameters that lie together in memory and are communicated together between the ranks that have
// the same shard of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/kernels/adamw.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::optim {

using at::Tensor;
using tensor::Mesh;

/// Which data is split over the ranks that have the same shard of a parameter
/// (ParameterSpec::replicas): the levels of ZeRO.
enum class Zero {
  kNothing,    ///< nothing: each rank keeps and updates everything (plain data parallelism)
  kMoments,    ///< moments and master copies: each rank updates its part (ZeRO-1)
  kGradients,  ///< gradients, too: they are summed after each pass (ZeRO-2)
};

/// Whether the gradient of a parameter is finite on a rank. A rank's own part contains the sums
/// over all replicas. If a gradient is bad only there, another rank may have caused it.
enum class Health { kFinite, kBadInOwnPart, kBad };

/// A part of the state of a parameter: some elements of its shard, in row-major order, as flat
/// tensors of the master type. They are this rank's own memory.
struct StatePiece {
  nn::ParameterPtr parameter;
  grid::Range elements;
  Tensor value;
  Tensor mean;        ///< AdamW's, of the gradient
  Tensor square;      ///< the same of its square
  Tensor value_mean;  ///< undefined if no mean of the values is kept
};

/// Which part of the state a rank is asked for.
enum class StateOf {
  kOwn,   ///< all that the rank keeps
  kOnce,  ///< of what several ranks keep, each element on one of them
};

/// Parameters of one type and with the same replicas. They lie in one piece of memory, each at a
/// multiple of kAlignment elements. Their gradients lie in another piece.
class FlatGroup final : private nn::GradientSink {
 public:
  /// In elements. This is a whole number of cache lines in every type.
  static constexpr std::int64_t kAlignment = 32;

  /// With `keeps_mean`, a running mean of the values is kept, which begins with the values that the
  /// parameters have before the first update.
  FlatGroup(const Mesh& mesh, nn::Parameters parameters, double decay, Zero zero,
            bool keeps_mean = false);
  FlatGroup(const FlatGroup&) = delete;
  FlatGroup& operator=(const FlatGroup&) = delete;
  ~FlatGroup();

  /// Discards the gradients. When the last of `passes` passes has completed all gradients, their
  /// sum over the replicas begins by itself.
  void begin_step(tensor::InFlight& in_flight, std::int64_t passes);
  /// Ends the step, with or without an update. Gradients that arrive later are ignored.
  void end_step();
  /// Begins the sum over the replicas if it has not begun.
  void reduce_gradients();
  /// Adds the sum of squares of a part of the summed gradients to `sum`, one number of type double
  /// on the device; waits for the summed gradients. Over all replicas every element counts once.
  void add_squares_to(const Tensor& sum);

  void update(kernels::AdamStep step);
  /// Gathers the new values. The parameters wait for them when they are used next, or, with
  /// `overlap.data` off, this function waits.
  void gather_values();
  /// Exchanges the values with their mean, on this rank; `gather_values` must follow.
  void exchange_mean();

  /// What this rank keeps of the state of all parameters.
  std::vector<StatePiece> state(StateOf which);
  /// Says that all of `state(StateOf::kOwn)` was replaced; `gather_values` must follow.
  void restored();

  const nn::Parameters& parameters() const { return parameters_; }
  Health health(std::size_t index) const;

 private:
  /// Whether each pass ends with a sum over the replicas.
  bool sums_passes() const { return zero_ == Zero::kGradients && replicas_ > 1; }
  const comm::Communicator& comm(tensor::Purpose purpose) const;
  comm::Priority priority() const;
  /// This rank's part of a tensor of all elements.
  Tensor part(const Tensor& all) const;
  grid::Range part_range() const;
  /// The part of such a tensor that this rank updates.
  Tensor own(const Tensor& all) const { return zero_ == Zero::kNothing ? all : part(all); }
  grid::Range own_range() const {
    return zero_ == Zero::kNothing ? grid::Range{0, count_} : part_range();
  }
  void expect_values(comm::Work work);
  void begin_mean();
  void place_values();
  void place_gradients();
  /// When the last of the parameters is complete, the sum over the replicas begins.
  void complete(nn::Parameter& parameter, bool last) override;
  void provide_memory(nn::Parameter& parameter) override;
  void sum_pass();
  void add_pass(const Tensor& sums);

  const Mesh* mesh_;
  nn::Parameters parameters_;
  std::vector<std::int64_t> begins_;
  double decay_;
  Zero zero_;
  grid::Axes axes_;  // the axes along which ranks have the same shards
  int replicas_;
  std::int64_t count_ = 0;  // elements, including gaps and the end
  Tensor values_;           // in the type of computation
  Tensor gradients_;        // in the master type; with sums_passes(), of the current pass only
  // These hold this rank's part only, in the master type.
  Tensor own_values_;     // a part of values_ if the types are the same
  Tensor own_gradients_;  // a part of gradients_ unless sums_passes()
  Tensor mean_;
  Tensor square_;
  Tensor value_mean_;  // undefined if no mean is kept
  bool has_mean_ = false;
  std::size_t incomplete_ = 0;  // parameters whose gradients the last pass has not completed
  tensor::InFlight* in_flight_ = nullptr;  // that of the step; null outside of steps
  bool has_sums_ = false;                  // whether there are sums of an earlier pass
  bool reducing_ = false;
  comm::Work reduction_;
  std::shared_ptr<nn::Arrival> arrival_;  // of the newest values
};

}  // namespace fourfold::optim
