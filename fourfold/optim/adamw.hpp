// AdamW for the parameters of a model. Ranks that have the same shard of a parameter (mostly along
// data) share the work and the memory of its update as `Zero` says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "fourfold/optim/flat_group.hpp"

namespace fourfold::optim {

struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;  ///< of matrices and embeddings
  Zero zero = Zero::kMoments;
  /// The largest decay of a running mean of the values, which is kept beside them; 0: none. The
  /// mean begins with the first values. Step k forgets less the later it is: its decay is
  /// min(mean_decay, (1 + k) / (10 + k)).
  double mean_decay = 0;
};

/// The decay of the running mean in step `number`, which counts from 1.
double mean_decay_of(double largest, std::int64_t number);

class AdamW {
 public:
  class Step;

  /// Takes over the memory of the parameters and their gradients. The parameters are given in the
  /// order of use, so that gradients are completed in about the reverse order. The parameters of
  /// the first group, which the backward pass reaches last, are not communicated together with
  /// others. Throws InvariantError for a list that contains null, that contains a parameter or a
  /// name twice, or that contains a parameter of another mesh or optimizer.
  AdamW(const Mesh& mesh, const std::vector<nn::Parameters>& groups, const AdamWSpec& spec);
  AdamW(const Mesh& mesh, const nn::Parameters& parameters, const AdamWSpec& spec)
      : AdamW(mesh, std::vector<nn::Parameters>{parameters}, spec) {}

  /// Begins a step of `passes` backward passes, whose gradients are added up. Earlier gradients are
  /// discarded. `in_flight` is that of the passes, and must outlive the step. Throws InvariantError
  /// when a step is under way.
  [[nodiscard]] Step begin_step(tensor::InFlight& in_flight, std::int64_t passes = 1);

  /// Gathers all values as an update does: their next uses wait for them.
  void gather_values();

  /// Exchanges the values of all parameters with their running mean: a second call undoes the
  /// first. The next uses of the values wait for them as after an update. Throws InvariantError
  /// when no mean is kept, or within a step.
  void exchange_mean();

  /// What this rank keeps of the state of all parameters, outside of steps. Whoever replaces all of
  /// `state(StateOf::kOwn)` must call `restored` on all ranks afterwards, which gathers the values
  /// as an update does.
  std::vector<StatePiece> state(StateOf which);
  void restored();

  /// Must be called after `reduce_gradients`.
  Health gradient_health(const nn::Parameter& parameter) const;

 private:
  Tensor reduce_gradients(tensor::InFlight& in_flight);
  void update(std::int64_t number, double rate, double gradient_scale);
  void end_step();

  const Mesh* mesh_;
  AdamWSpec spec_;
  std::deque<FlatGroup> groups_;  // in the order of use
  bool in_step_ = false;
};

/// A step under way. Its functions must be called in the following order. Any other order throws
/// InvariantError that says what is missing, and so does a gradient that arrives outside of the
/// passes:
///
///     tensor::InFlight in_flight(mesh);
///     optim::AdamW::Step step = optimizer.begin_step(in_flight, passes);
///     for (...) {
///       step.begin_pass();
///       loss_of(...).backward();
///     }
///     const double squares = step.reduce_gradients().item<double>();
///     step.update(number, rate, scale);
///
/// If a step is destroyed before its update, for instance by an exception, the parameters stay as
/// they were.
class AdamW::Step {
 public:
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() { end(); }

  /// Must be called before each backward pass.
  void begin_pass();
  /// The same for some of the parameters: those of a stage, where the passes of stages overlap.
  void begin_pass(const nn::Parameters& parameters);

  /// Must be called after the last backward pass. Sums the gradients over the replicas. Returns
  /// this rank's share of the square of their global norm, as one number of type double on the
  /// device, which nobody has read yet: the sum over all ranks counts every element once.
  Tensor reduce_gradients();

  /// Changes the parameters, and ends the step. `number` is the number of the step and counts from
  /// 1. The gradient is multiplied by `gradient_scale`.
  void update(std::int64_t number, double rate, double gradient_scale);

 private:
  friend class AdamW;
  enum class State { kPasses, kReduced, kEnded };

  Step(AdamW& optimizer, tensor::InFlight& in_flight)
      : optimizer_(&optimizer), in_flight_(&in_flight) {}
  void check(const char* call, State expected, const char* otherwise) const;
  void end();

  AdamW* optimizer_;
  tensor::InFlight* in_flight_;
  State state_ = State::kPasses;
};

/// The factor that clips gradients of this norm to a norm of at most `largest`. 0 means no limit.
double clip_scale(double norm, double largest);

}  // namespace fourfold::optim
