// A model cut into stages along the pipe axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/model/model.hpp"

namespace fourfold::model {

/// Why a model of `layers` layers cannot be cut into stages for `places` places of the pipeline
/// with `chunks` chunks each. Empty if it can.
std::string stages_misfit(std::int64_t layers, int places, int chunks);
/// Throws it as ConfigError.
void check_stages(std::int64_t layers, int places, int chunks);

/// The number of blocks of each stage. The largest cost of a stage is as small as possible. Every
/// stage has at least one block. The first stage also has the embedding and the last one the head;
/// their costs are given in blocks. Throws ConfigError when there are more stages than blocks.
std::vector<std::int64_t> balanced(std::int64_t blocks, int stages, double embedding, double head);

/// The same for blocks that differ, by the cost of each.
std::vector<std::int64_t> balanced(const std::vector<double>& costs, int stages);

/// This rank's parts of the model. With `chunks` parts on each rank, stage number s, counted along
/// the model, is chunk s / pipe of the ranks at s % pipe. More chunks make smaller bubbles.
class Stages {
 public:
  /// `blocks` are the numbers of blocks of all stages. If it is empty, the stages are balanced.
  Stages(const Mesh& mesh, ModelPtr model, std::int64_t samples, int chunks = 1,
         const std::vector<std::int64_t>& blocks = {});

  const Model& model() const { return *model_; }
  std::int64_t samples() const { return samples_; }
  int chunks() const { return static_cast<int>(parts_.size()); }
  const Part& operator[](int chunk) const { return *parts_[static_cast<std::size_t>(chunk)]; }
  /// The only part of a model that is not cut into stages.
  const Part& whole() const;
  bool is_whole() const { return cut_.size() == 1; }

  /// All stages of the model, on this rank or not.
  const std::vector<Stage>& all() const { return cut_; }
  /// The place of a stage along pipe.
  int place_of(std::size_t stage) const;

  /// The parameters that this rank owns, as lists: see Part::groups.
  std::vector<nn::Parameters> groups() const;
  /// The same in one list.
  nn::Parameters parameters() const;
  tensor::GatherOrder gatherables() const;

 private:
  const Mesh* mesh_;
  ModelPtr model_;
  std::int64_t samples_;
  std::vector<Stage> cut_;
  std::vector<std::unique_ptr<Part>> parts_;
};

/// Throws InvariantError unless every parameter of the model is owned by exactly one place along
/// pipe. All ranks must call it.
void check_owners(const Mesh& mesh, const Stages& stages);

/// A parameter of the model, on this rank or not.
struct Owned {
  nn::ParameterSpec spec;
  at::ScalarType type;  ///< of its values
  int place = 0;        ///< along pipe
};
/// All parameters of the model, in the order of use.
std::vector<Owned> owners(const Mesh& mesh, const Stages& stages);

}  // namespace fourfold::model
