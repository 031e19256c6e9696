// The passes of a step through a model that is cut into stages, each rank its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "fourfold/model/stages.hpp"
#include "fourfold/train/pipeline_schedule.hpp"

namespace fourfold::train {

using at::Tensor;
using tensor::Mesh;

/// What a forward pass reads.
struct Pass {
  nn::Batch batch;
  Tensor tokens;
  Tensor targets;
};

/// Reads a micro-batch of the step; with `data` false only what the batch is, without its tokens.
using ReadPass = std::function<Pass(std::int64_t micro_batch, bool data)>;

/// Called with the parameters of a stage before each of its backward passes.
using BeginPass = std::function<void(const nn::Parameters& parameters)>;

class Pipeline {
 public:
  /// Both stay while it is used. After the parameters have got their first values.
  Pipeline(const Mesh& mesh, const model::Stages& stages);

  /// All forward and backward passes of a step of so many micro-batches; returns the sum of the
  /// losses on ranks of the last stage, else 0.
  double run(std::int64_t micro_batches, std::int64_t tokens_of_step, const ReadPass& read,
             const BeginPass& begin_pass);

  /// The forward passes alone, without a graph.
  double run_forward(std::int64_t micro_batches, std::int64_t tokens, const ReadPass& read);

  /// After the parameters have changed: brings the table of tokens from the first stage to the
  /// last, if they share it. It is waited for at its next use.
  void share_table();
  /// Waits for that.
  void settle();

 private:
  struct Sent {
    std::vector<Tensor> tensors;
    comm::Work work;  // the last: it goes first, and waits before the tensors go
  };
  /// A forward pass whose backward pass is still to come.
  struct Open {
    std::vector<Tensor> inputs;  // leaves of its graph
    std::vector<Tensor> outputs;
    Sent sent;  // the outputs
  };

  const model::Gpt& part(const Unit& unit) const { return (*stages_)[unit.chunk]; }
  bool last_of_step(const Unit& unit) const { return unit.micro_batch + 1 == micro_batches_; }
  bool needs_table_gradient(const Unit& unit) const;
  const comm::Communicator& comm(bool forward) const;
  void expect(const Unit& unit);
  std::vector<Tensor> arrived();
  Sent send(std::vector<Tensor> tensors, bool forward) const;
  void keep_sending(Sent sent);
  std::vector<Tensor> forward(const Unit& unit, const std::vector<Tensor>& inputs,
                              std::int64_t tokens, const ReadPass& read, bool training);
  void backward(const Unit& unit, const std::vector<Tensor>& gradients,
                const BeginPass& begin_pass);
  void give_table_gradient();

  const Mesh* mesh_;
  const model::Stages* stages_;
  int places_;
  int place_;
  nn::ParameterPtr table_;  // that the first and the last stage share, on these two
  bool owns_table_ = false;
  std::int64_t micro_batches_ = 0;
  double loss_ = 0;
  std::map<std::pair<int, std::int64_t>, Open> open_;  // by chunk and micro-batch
  std::vector<Tensor> expected_;                       // what the next unit needs from elsewhere
  comm::Work arriving_;
  Tensor table_gradient_;
  comm::Work table_arriving_;
  std::deque<Sent> sent_;  // that nothing else waits for
  Sent table_sent_;
  std::shared_ptr<nn::Arrival> table_arrival_;
};

}  // namespace fourfold::train
