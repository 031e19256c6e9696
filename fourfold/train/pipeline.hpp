// The passes of a step through a model that is cut into stages, where each rank has its own stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "fourfold/model/stages.hpp"
#include "fourfold/train/pipeline_order.hpp"

namespace fourfold::train {

using at::Tensor;
using tensor::Mesh;

/// Reads a micro-batch of the step. If `data` is false it only describes the batch, without data.
using ReadInput = std::function<model::Input(std::int64_t micro_batch, bool data)>;

/// Runs a micro-batch, counted from 0, through a stage: takes what the stage before returned, and
/// returns what the next one takes.
using RunStage =
    std::function<std::vector<Tensor>(const model::Part& part, const std::vector<Tensor>& hidden,
                                      std::int64_t micro_batch, nn::Pass& pass)>;

/// Called with the parameters of a stage before each of its backward passes.
using BeginPass = std::function<void(const nn::Parameters& parameters)>;

class Pipeline {
 public:
  /// `mesh` and `stages` must outlive the pipeline. Call this after the parameters have been
  /// initialised.
  Pipeline(const Mesh& mesh, const model::Stages& stages);

  /// Runs all forward and backward passes of a step of `micro_batches` micro-batches. Returns the
  /// sum of the losses on ranks of the last stage, else 0: one number of type double on the device,
  /// which nobody has read yet.
  Tensor run(tensor::InFlight& in_flight, std::int64_t micro_batches, std::int64_t terms,
             const ReadInput& read, const BeginPass& begin_pass);

  /// Runs only forward passes, of micro-batches that are like `batch`, without a graph.
  void run_forward(tensor::InFlight& in_flight, const nn::Batch& batch, std::int64_t micro_batches,
                   const RunStage& run);

  /// Must be called after the parameters have changed. Sends the parameter that the first and the
  /// last stage share, if there is one, from the first to the last. Its next use waits for it.
  void send_shared();
  /// Waits until the shared parameter has arrived.
  void finish();

 private:
  struct Sent {
    std::vector<Tensor> tensors;
    comm::Work work;  // last member: destroyed first, and waits before the tensors are freed
  };
  /// A forward pass whose backward pass has not run yet.
  struct Open {
    std::vector<Tensor> inputs;  // leaves of its graph
    std::vector<Tensor> outputs;
    Sent sent;  // the outputs
  };

  const model::Part& part(const Unit& unit) const { return (*stages_)[unit.chunk]; }
  bool last_of_step(const Unit& unit) const { return unit.micro_batch + 1 == micro_batches_; }
  bool needs_shared_gradient(const Unit& unit) const;
  const comm::Communicator& comm(bool forward) const;
  void expect(const Unit& unit);
  void forget_loss();
  std::vector<Tensor> arrived();
  Sent send(std::vector<Tensor> tensors, bool forward) const;
  void keep_sending(Sent sent);
  void backward(const Unit& unit, const std::vector<Tensor>& gradients, const BeginPass& begin_pass,
                tensor::InFlight& in_flight);
  void give_shared_gradient(tensor::InFlight& in_flight);

  const Mesh* mesh_;
  const model::Stages* stages_;
  int places_;
  int place_;
  nn::ParameterPtr shared_;  // by the first and the last stage; null on other ranks
  bool owns_shared_ = false;
  nn::Batch batch_;  // what a micro-batch is like
  std::int64_t micro_batches_ = 0;
  Tensor loss_;
  std::map<std::pair<int, std::int64_t>, Open> open_;  // by chunk and micro-batch
  std::vector<Tensor> expected_;  // tensors that the next unit receives from other ranks
  comm::Work arriving_;
  Tensor shared_gradient_;
  comm::Work shared_arriving_;
  std::deque<Sent> sent_;  // transfers that nothing else waits for
  Sent shared_sent_;
  std::shared_ptr<nn::Arrival> shared_arrival_;
};

}  // namespace fourfold::train
