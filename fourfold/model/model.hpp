// What the engine knows of a model, whatever its kind: a description of the model (`Model`), and a
// stage of it on a rank (`Part`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/model/file_tensor.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/nn/pass.hpp"
#include "fourfold/nn/product_kind.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

/// A stage of the pipeline: some of the blocks. The first stage also has what comes before the
/// blocks, and the last stage what comes after them, with the loss.
struct Stage {
  grid::Range blocks;
  bool first = true;
  bool last = true;
};

/// What a pass reads.
struct Input {
  nn::Batch batch;
  /// The samples of this rank's data and z, as `Model::empty_data` lays them out. Only the first
  /// and the last stage read them; it may be empty on other stages.
  std::vector<Tensor> data;
};

/// How a model is computed. The kind and the sizes of a model are independent of it.
struct Execution {
  nn::ProductKind product = nn::ProductKind::k4d;  ///< of its linear layers and tables
  nn::Activations activations = nn::Activations::kSharded;
  bool checkpoint = false;  ///< keep only the inputs of the blocks
  nn::Precision precision;
  std::uint64_t seed = 1;
};

/// The two ends of a stage.
enum class End { kInput, kOutput };

/// A stage of a model, on a rank.
class Part : public nn::Layer {
 public:
  const Stage& stage() const { return stage_; }

  /// A pass through the stage. `hidden` are the tensors that the previous stage returned, those of
  /// the first part of the batch first; on the first stage it is empty. The result is what the next
  /// stage takes. It may contain tensors of `hidden`, which the stage hands on. On the last stage
  /// the result is this rank's part of the loss: the sum over its samples divided by `terms`, the
  /// number of terms of the loss in a step.
  virtual std::vector<Tensor> run(const std::vector<Tensor>& hidden, const Input& input,
                                  std::int64_t terms, nn::Pass& pass) const = 0;
  /// The same for a whole model.
  Tensor loss(const Input& input, std::int64_t terms, nn::Pass& pass) const;

  /// The number of parts in which a batch goes through the model. It is two, each of which overlaps
  /// the other's communication, if there is communication and the samples of a rank can be halved;
  /// else one.
  virtual int parts_of(const nn::Batch& batch) const = 0;
  /// Memory for what the stage takes or returns for a part of a batch: the hidden state, and what
  /// later stages need besides. There is nothing at the input of the first stage and at the output
  /// of the last one.
  virtual std::vector<Tensor> empty_hidden(const nn::Batch& part, End end) const = 0;
  /// The same for all parts of a batch.
  std::vector<Tensor> all_empty_hidden(const nn::Batch& batch, End end) const;

  /// The parameters that this stage owns, in the order of use. The gradients of the first list
  /// complete last, and the optimizer keeps the lists apart.
  virtual std::vector<nn::Parameters> groups() const = 0;
  /// The parameter that the first stage shares with the last, if this stage uses it; else null. On
  /// a last stage that is not the first, it is a copy of the first stage's parameter, and this
  /// stage does not own it.
  virtual nn::ParameterPtr shared() const { return nullptr; }
  /// What is gathered for each use, for `GatherPlan`.
  virtual tensor::GatherOrder gatherables() const = 0;
  /// Whether this rank's part of the loss counts. Where several ranks have the same part, one of
  /// them counts.
  virtual bool counts_loss() const = 0;

  /// The flops of a block of the stage, of the kind that `Layer::flops` counts. Blocks are numbered
  /// over the whole model.
  virtual double block_flops(std::int64_t block, const nn::Batch& batch) const = 0;

 protected:
  Part(const Mesh& mesh, const Stage& stage) : Layer(mesh, ""), stage_(stage) {}

 private:
  Stage stage_;
};

class Model;
using ModelPtr = std::shared_ptr<const Model>;

/// Describes a model. It costs no memory, and nothing of it exists on any rank.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  /// The name of the kind, as in the configuration: "gpt".
  virtual std::string_view kind() const = 0;
  /// The sizes that a grid must divide, for messages: "8 heads, width 24, 2 layers".
  virtual std::string sizes() const = 0;
  virtual const Execution& execution() const = 0;
  /// What makes two models different although the shapes of their weights may be the same, by the
  /// keys of the configuration: {"heads", "8"}, ... The first is the kind.
  virtual std::vector<std::pair<std::string, std::string>> traits() const = 0;

  /// The blocks that a pipeline can be cut between.
  virtual std::int64_t blocks() const = 0;
  /// Whether all blocks are alike. If so, a model with fewer blocks shows what all of them need.
  virtual bool alike() const { return true; }
  /// Whether layers swap channels between x and y. Then ranks with the same index along both send
  /// less than the others.
  virtual bool swaps_channels() const { return false; }
  /// The same model with another number of blocks. Only where blocks are alike.
  virtual ModelPtr with_blocks(std::int64_t blocks) const = 0;
  Stage whole() const { return {.blocks = {0, blocks()}}; }

  /// Why the model does not fit a grid, with `samples` samples in a forward pass. Empty if it fits.
  virtual std::string misfit(const grid::Sizes& sizes, std::int64_t samples) const = 0;
  /// Makes a stage for forward passes of `samples` samples over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  virtual std::unique_ptr<Part> make(const Mesh& mesh, std::int64_t samples,
                                     const Stage& stage) const = 0;

  /// A pass over `samples` samples of the model's full size.
  virtual nn::Batch batch(std::int64_t samples) const = 0;
  /// Memory for the data of some samples. The first dimension of each tensor is that of samples.
  virtual std::vector<Tensor> empty_data(std::int64_t samples, c10::Device device) const = 0;
  /// Throws ConfigError for data in main memory that the model cannot take, such as tokens that its
  /// vocabulary does not have. On a device nobody looks at them any more.
  virtual void check_data(const std::vector<Tensor>& /*data*/) const {}
  /// The number of terms of the loss of some samples: their tokens, for instance.
  virtual std::int64_t terms(std::int64_t samples) const = 0;

  /// The tensors of a file that hold the parameter `name` with that shape.
  virtual FileTensor file_tensor(const std::string& name, const grid::Shape& shape) const = 0;
  /// The beginning of the names of a block's parameters: "h.3.". Only where blocks are alike.
  virtual std::string block_prefix(std::int64_t block) const = 0;

  // These are what the layers say, by a dry model of one rank.

  /// The flops of training on some samples by the usual count: a backward pass costs two forward
  /// passes, and recomputation does not count.
  Flops flops(std::int64_t samples) const;
  /// The number of elements of all parameters.
  std::int64_t parameter_count() const;
  /// The flops of a forward pass of one sample through each block. The first has what comes before
  /// the blocks, too, and the last what comes after them.
  std::vector<double> block_flops() const;
  /// The flops of what comes after the blocks, in flops of a block. Only where blocks are alike.
  double head_in_blocks() const;
  /// The whole model as stages whose shares of the flops are as even as possible.
  std::vector<Stage> cut(int stages) const;
  /// The whole model as stages that have so many blocks.
  std::vector<Stage> cut(const std::vector<std::int64_t>& blocks) const;
};

}  // namespace fourfold::model
