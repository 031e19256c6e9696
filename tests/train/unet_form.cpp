// SPDX-License-Identifier: Apache-2.0
#include "tests/train/unet_form.hpp"

#include <algorithm>

#include "fourfold/kernels/elements.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/train/pipeline_order.hpp"

#include "tests/train/operations_of_weights.hpp"
#include "tests/train/unet_anatomy.hpp"

namespace fourfold::test {

namespace {

using grid::Axes;
using grid::Axis;
using schedule::Op;

class Form {
 public:
  Form(const grid::Grid& grid, const train::Recipe& recipe, int rank)
      : grid_(grid),
        recipe_(recipe),
        model_(dynamic_cast<const model::UNetModel&>(*recipe.model)),
        places_(grid.size(Axis::kPipe)),
        place_(grid.coord_of(rank)[Axis::kPipe]),
        e_(model_.execution().precision.compute),
        master_(model_.execution().precision.master),
        f_(kernels::statistics_type(model_.execution().precision.compute)),
        samples_(recipe.micro_batch / grid.size({Axis::kData, Axis::kZ})),
        anatomist_(grid, model_.spec(), samples_, rank),
        operations_(grid, rank) {
    const std::vector<model::Stage> all = recipe.model->cut(places_ * recipe.chunks);
    for (int i = 0; i < recipe.chunks; ++i) {
      stages_.push_back(all[static_cast<std::size_t>(i * places_ + place_)]);
    }
  }

  CallsBy all() {
    for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
      const std::int64_t sums = times_at_rest(static_cast<int>(chunk));
      for (std::int64_t i = 0; i < recipe_.batch / recipe_.micro_batch; ++i) {
        pass(stages_[chunk], i < sums);
        boundaries(stages_[chunk]);
      }
    }
    gathers();
    update(true);
    update(false);
    operations_.add(Op::kAllReduce, grid_.everyone(0).axes, 4 * Type(at::kDouble));
    return operations_.all();
  }

 private:
  /// A block, or what comes before or after all blocks.
  struct Piece {
    std::string name;
    UNetAnatomy anatomy;
    bool is_block = true;
  };
  std::vector<Piece> pieces(const model::Stage& stage) const {
    std::vector<Piece> all;
    if (stage.first) all.push_back({"entry", anatomist_.entry(), false});
    for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
      const model::UNetBlockSpec& block = model_.plan().blocks()[static_cast<std::size_t>(i)];
      all.push_back({block.name, anatomist_.block(block)});
    }
    if (stage.last) all.push_back({"exit", anatomist_.exit(), false});
    return all;
  }
  bool again(const Piece& piece) const { return piece.is_block && model_.execution().checkpoint; }

  std::vector<train::Unit> units() const {
    return train::pipeline_units(places_, place_, recipe_.chunks,
                                 recipe_.batch / recipe_.micro_batch);
  }
  /// How often no pass of the chunk is under way any more: then the gradients of its matrices are
  /// summed.
  std::int64_t times_at_rest(int chunk) const {
    std::int64_t times = 0;
    std::int64_t under_way = 0;
    for (const train::Unit& unit : units()) {
      if (unit.chunk != chunk) continue;
      under_way += unit.forward ? 1 : -1;
      if (under_way == 0) ++times;
    }
    return times;
  }

  // --- activations

  /// They go part by part: in two halves where a rank has two samples and there are others along x
  /// and y.
  void part(Op op, const Axes& axes, std::int64_t elements, const Type& type) {
    const bool halves =
        recipe_.overlap.halves && grid_.size({Axis::kX, Axis::kY}) > 1 && samples_ >= 2;
    if (!halves) return operations_.add(op, axes, elements * type);
    for (const std::int64_t some : {samples_ - samples_ / 2, samples_ / 2}) {
      operations_.add(op, axes, elements / samples_ * some * type);
    }
  }
  void run(const std::vector<UNetOperation>& all) {
    for (const UNetOperation& one : all)
      part(one.op, one.axes, one.elements, one.statistics ? f_ : e_);
  }
  void boundaries(const model::Stage& stage) {
    for (const bool input : {true, false}) {
      if (input ? stage.first : stage.last) continue;
      const model::UNetHandover what =
          model_.plan().before(input ? stage.blocks.begin : stage.blocks.end);
      std::vector<std::int64_t> tensors;
      if (!what.is_left) tensors.push_back(anatomist_.images(what.images));
      for (const model::UNetImages& one : what.left) tensors.push_back(anatomist_.images(one));
      if (what.embedding) tensors.push_back(samples_ * model_.spec().embedding());
      for (const std::int64_t elements : tensors) {
        part(Op::kSend, Axis::kPipe, elements, e_);
        part(Op::kRecv, Axis::kPipe, elements, e_);
      }
    }
  }

  void pass(const model::Stage& stage, bool at_rest) {
    for (const Piece& piece : pieces(stage)) {
      run(piece.anatomy.forward);
      if (again(piece)) run(piece.anatomy.forward);
      run(piece.anatomy.backward);
      std::int64_t vectors = 0;
      for (const UNetParameter& vector : piece.anatomy.vectors) vectors += vector.summed;
      sum(vectors * master_);
      // What is computed again is in use only then.
      if (!at_rest && !again(piece)) continue;
      for (const UNetParameter& weight : piece.anatomy.forward_weights) sum(weight.summed * e_);
    }
  }
  void sum(const Payload& payload) {
    operations_.add(Op::kReduceScatter, Axis::kZ,
                    payload.in_background(recipe_.overlap.weight_gradients));
  }

  // --- weights, before they are used

  void gathers() {
    Uses uses(grid_);
    for (const train::Unit& unit : units()) {
      const model::Stage& stage = stages_[static_cast<std::size_t>(unit.chunk)];
      std::vector<Piece> all = pieces(stage);
      if (!unit.forward) std::reverse(all.begin(), all.end());
      for (const Piece& piece : all) {
        if (unit.forward) {
          use_vectors(uses, piece);
          use(uses, piece.anatomy.forward_weights);
        } else {
          if (again(piece)) use(uses, piece.anatomy.forward_weights);
          use(uses, piece.anatomy.backward_weights);
        }
      }
      if (places_ > 1 || unit.forward) continue;
      uses.add_to(operations_, recipe_.overlap.keep_weights);
      uses = Uses(grid_);
    }
    uses.add_to(operations_, recipe_.overlap.keep_weights);
  }
  void use(Uses& uses, const std::vector<UNetParameter>& weights) const {
    for (const UNetParameter& weight : weights) {
      uses.use(weight.name, {{weight.gathered, weight.elements * e_}});
    }
  }
  /// Together, those that go over the same axes.
  void use_vectors(Uses& uses, const Piece& piece) const {
    std::vector<Uses::Gather> all;
    for (const UNetParameter& vector : piece.anatomy.vectors) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const Uses::Gather& gather) {
        return gather.axes == vector.gathered;
      });
      if (same == all.end()) {
        all.push_back({vector.gathered, vector.elements * master_});
      } else {
        same->payload.count += vector.elements;
      }
    }
    uses.use("vectors of " + piece.name, all);
  }

  // --- the optimizer

  /// What comes before the blocks has segments of its own.
  void update(bool entry) {
    std::vector<std::int64_t> matrices;
    std::vector<std::int64_t> vectors;
    for (const model::Stage& stage : stages_) {
      for (const Piece& piece : pieces(stage)) {
        if ((piece.name == "entry") != entry) continue;
        for (const UNetParameter& one : piece.anatomy.forward_weights) {
          matrices.push_back(one.own(grid_));
        }
        for (const UNetParameter& one : piece.anatomy.vectors) vectors.push_back(one.own(grid_));
      }
    }
    add_update(operations_, grid_, recipe_, {Axis::kData, matrices, e_});
    add_update(operations_, grid_, recipe_, {Axis::kData, vectors, master_});
  }

  const grid::Grid& grid_;
  const train::Recipe& recipe_;
  const model::UNetModel& model_;
  int places_, place_;                // along pipe
  std::vector<model::Stage> stages_;  // of this place, one for each chunk
  Type e_, master_, f_;
  std::int64_t samples_;  // of a rank
  UNetAnatomist anatomist_;
  Operations operations_;
};

}  // namespace

CallsBy unet_form(const grid::Grid& grid, const train::Recipe& recipe, int rank) {
  return Form(grid, recipe, rank).all();
}

}  // namespace fourfold::test
