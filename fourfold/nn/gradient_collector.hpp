// Collects the gradient of a parameter from its uses, and hands it to the optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "fourfold/nn/gathering.hpp"
#include "fourfold/nn/gradient_sink.hpp"
#include "fourfold/nn/passes.hpp"
#include "fourfold/tensor/in_flight.hpp"
#include "fourfold/tensor/product.hpp"

namespace fourfold::nn {

/// The way of a gradient (docs/gradients.md, "The way of a gradient"):
///
///     Use::slot                   each use adds its gradient of the rows that it saw
///     Use::end, ending            the use ends; was it the last one of the pass?
///     reduce                      the sum over `summed` begins, and waits in the backlog
///     arrive                      this rank's part is added to the gradient of the shard
///     GradientSink::complete      the optimizer is told
///
/// Where nothing is to be reduced, uses add to the gradient of the shard itself, and `end` goes on
/// to `complete` at once.
class GradientCollector {
 public:
  /// Joins the group over `summed`. All three outlive the collector.
  GradientCollector(Parameter& owner, const Shard& shard, const Gathering& gathering);

  /// Where the next part of a gradient is written, and whether it is added to the existing values.
  struct Slot {
    Tensor tensor;
    kernels::Into into;
  };

  // --- the gradient of the shard, in the master type

  /// Undefined before a backward pass has made one. Throws InvariantError while a part of it is
  /// under way, or waits for the backward pass of another graph.
  Tensor gradient() const;
  bool has_gradient() const { return has_gradient_; }
  /// Lets the next gradient replace this one.
  void forget();
  /// Frees the gradient and its memory. For the next one the sink is asked to provide memory.
  void drop();
  /// From now on the gradient is stored in `home`, a tensor of its shape and type.
  void move_to(const Tensor& home);
  Slot slot();
  /// Adds `part` to the gradient.
  void accumulate(const Tensor& part);

  // --- uses

  class Use;
  /// A new use, or null while no graph is made. Its sums go to `in_flight`, which must outlive the
  /// graph.
  std::shared_ptr<Use> use(tensor::InFlight& in_flight);

  /// The communicator over which the gradient is reduced.
  const comm::Communicator& comm() const;
  /// The part of a padded gradient that this rank reduces. The ranks along axes that are gathered
  /// but not summed all have the same gradient, and each keeps its own part.
  Tensor own_part(const Tensor& padded) const;

  // --- the steps of an optimizer. Only the optimizer calls these.

  /// Throws InvariantError when an optimizer has taken over the parameter.
  void check_free() const { passes_.check_free(); }
  /// From now on gradients arrive within steps, and `sink` is told when they are complete.
  void adopt(GradientSink& sink);
  void release();
  void begin_step(std::int64_t passes) { passes_.begin_step(passes); }
  /// Must be called before each backward pass of a step.
  void begin_pass() { passes_.begin_pass(uses_); }
  /// Throws InvariantError unless the passes of the step have completed the gradient.
  void check_passes_done() const { passes_.check_done(uses_); }
  void end_step() { passes_.end_step(); }

 private:
  /// What the end of a use means.
  struct Ended {
    bool completes;  ///< it was the last use of its pass
    bool last;       ///< the pass is the last of its step
  };

  Slot sum_slot(at::ScalarType wire);
  Ended end_use();
  void reduce(const Ended& ended, tensor::InFlight& in_flight);
  void arrive(const Tensor& part, const Ended& ended);
  void complete(const Ended& ended);
  /// Keeps the parameter alive: a graph may outlive its model.
  std::shared_ptr<GradientCollector> self();
  const std::string& name() const { return shard_->spec().name; }

  Parameter* owner_;
  const Shard* shard_;
  const Gathering* gathering_;
  GradientSink* sink_ = nullptr;
  Passes passes_;
  Tensor gradient_;  // the memory of the gradient
  bool has_gradient_ = false;
  int uses_ = 0;       // uses that have not ended
  int under_way_ = 0;  // parts of the gradient that have not arrived
  Tensor sum_;         // the sum of the uses' gradients of all rows, if it is to be reduced
  at::ScalarType wire_ = at::kFloat;  // the type in which it is sent
};

/// A use of a parameter in a graph. The gradients of several uses, for instance those of both
/// halves of a batch, are added up. When the last use has ended, the sum is reduced and added to
/// the gradient.
class GradientCollector::Use {
 public:
  Use(std::shared_ptr<GradientCollector> collector, tensor::InFlight& in_flight);
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  /// Also handles a graph that is destroyed without a backward pass.
  ~Use();

  tensor::InFlight& in_flight() const { return *in_flight_; }

  /// Where this use adds its gradient of the rows that it saw, before `end`. Gradients of several
  /// uses are added up in the master type. If the sum is reduced over ranks, it is rounded once to
  /// the type `wire` in which it is sent.
  Slot slot(at::ScalarType wire) const { return collector_->sum_slot(wire); }
  /// Says that the gradient of this use is complete.
  void end();
  /// Says that the gradient of the shard, `bytes` of memory, is under way: `part` waits for it.
  void end_later(std::int64_t bytes, std::function<Tensor()> part);
  /// Says that the gradient of the shard is under way. The caller must call the result with it.
  std::function<void(const Tensor& part)> ending();

 private:
  Ended close();

  std::shared_ptr<GradientCollector> collector_;
  tensor::InFlight* in_flight_;
  bool open_ = true;
};

}  // namespace fourfold::nn
