// SPDX-License-Identifier: Apache-2.0
#include "tests/train/closed_forms.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/train/pipeline_order.hpp"

#include "tests/train/anatomy.hpp"
#include "tests/train/summa_form.hpp"
#include "tests/train/vectors_form.hpp"

namespace fourfold::test {

namespace {

using grid::Axes;
using grid::Axis;
using schedule::Op;

std::int64_t up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

class Forms {
 public:
  Forms(const grid::Grid& grid, const train::Recipe& recipe, int rank)
      : grid_(grid),
        recipe_(recipe),
        model_(anatomy_of(*recipe.model)),
        spec_(model_.frame),
        places_(grid.size(Axis::kPipe)),
        place_(grid.coord_of(rank)[Axis::kPipe]),
        gx_(grid.size(Axis::kX)),
        gy_(grid.size(Axis::kY)),
        gz_(grid.size(Axis::kZ)),
        sharded_(spec_.execution.activations == nn::Activations::kSharded),
        heads_(model_.divides(gx_ * gy_)),
        e_(spec_.execution.precision.compute),
        master_(spec_.execution.precision.master),
        f_(kernels::statistics_type(spec_.execution.precision.compute)),
        samples_(recipe.micro_batch / grid.size({Axis::kData, Axis::kZ})),
        m_(samples_ * spec_.context),
        hidden_rows_(sharded_ ? m_ / gy_ : m_),
        vocabulary_(gz_ * up(up(up(spec_.vocabulary, gy_), gx_), gz_)),
        vectors_(grid, recipe.overlap, sharded_, heads_, master_),
        operations_(grid, rank) {
    const std::vector<model::Stage> all = recipe.model->cut(places_ * recipe.chunks);
    for (int i = 0; i < recipe.chunks; ++i) {
      stages_.push_back(all[static_cast<std::size_t>(i * places_ + place_)]);
    }
  }

  CallsBy all() {
    const std::int64_t passes = recipe_.batch / recipe_.micro_batch;
    for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
      const std::int64_t sums = times_at_rest(static_cast<int>(chunk));
      for (std::int64_t i = 0; i < passes; ++i) {
        sums_ = i < sums;
        pass(stages_[chunk]);
        boundaries(stages_[chunk]);
      }
    }
    gathers();
    if (places_ > 1 && spec_.tied) shared_table();
    // Vectors are kept in the master type.
    update(embedding_sizes(), e_);
    update(matrix_sizes(), e_);
    update(vector_sizes(), master_);
    add(Op::kAllReduce, grid_.everyone(0).axes, 4 * Type(at::kDouble));  // loss, norm and votes
    return operations_.all();
  }

 private:
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

  // --- weights, before they are used

  /// With a pipeline the weights of a step are brought together, otherwise those of a pass.
  void gathers() {
    Uses uses(grid_);
    for (const train::Unit& unit : units()) {
      const model::Stage& stage = stages_[static_cast<std::size_t>(unit.chunk)];
      unit.forward ? forward_uses(uses, stage) : backward_uses(uses, stage);
      if (places_ > 1 || unit.forward) continue;
      uses.add_to(operations_, recipe_.overlap.keep_weights);
      uses = Uses(grid_);
    }
    uses.add_to(operations_, recipe_.overlap.keep_weights);
  }
  void forward_uses(Uses& uses, const model::Stage& stage) const {
    if (stage.first) {
      use_table(uses, "table");
      if (model_.positions) {
        uses.use("positions", {{{Axis::kY, Axis::kZ}, position_elements() * e_}});
      }
    }
    for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
      uses.use(concat("vectors of ", i), vectors_.gathers(model_.vectors));
      use_matrices(uses, i, false);
    }
    if (!stage.last) return;
    uses.use("vectors of the end", vectors_.gathers(model_.last_vectors));
    use_table(uses, spec_.tied ? "table" : "head");  // once for both directions
  }
  void backward_uses(Uses& uses, const model::Stage& stage) const {
    for (std::int64_t i = stage.blocks.end - 1; i >= stage.blocks.begin; --i) {
      if (spec_.execution.checkpoint) use_matrices(uses, i, false);
      use_matrices(uses, i, true);
    }
  }
  void use_table(Uses& uses, const std::string& name) const {
    uses.use(name, {{Axis::kZ, vocabulary_ * spec_.width * e_}});
  }
  void use_matrices(Uses& uses, std::int64_t block, bool backward) const {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::size_t number = backward ? layers_.size() - 1 - i : i;
      uses.use(concat(block, ".", number), {{Axis::kZ, weight_elements(layers_[number]) * e_}});
    }
  }

  // --- passes

  void pass(const model::Stage& stage) {
    if (stage.first) {
      spread();  // the lookup
      collect();
      positions();
    }
    for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
      for (int way = 0; way < (spec_.execution.checkpoint ? 2 : 1); ++way) block_forward();
      block_backward();
    }
    if (stage.last) end();
    if (stage.first || stage.last) sum(Axis::kZ, vocabulary_ * spec_.width * master_);
    if (stage.first && stage.last && !spec_.tied) {
      sum(Axis::kZ, vocabulary_ * spec_.width * master_);
    }
  }
  void end() {
    norm_forward();
    norm_backward();
    vectors_.add_sums(operations_, model_.last_vectors);
    collect();  // logits
    collect();
    spread();
    part(Op::kAllReduce, {Axis::kY, Axis::kX}, m_ * f_);
    part(Op::kAllReduce, {Axis::kY, Axis::kX}, 2 * m_ * f_);
  }

  /// Hidden states and their gradients, from place to place.
  void boundaries(const model::Stage& stage) {
    const Payload hidden = hidden_rows_ * spec_.width / gx_ * e_;
    for (const bool there : {!stage.first, !stage.last}) {
      if (!there) continue;
      part(Op::kSend, Axis::kPipe, hidden);
      part(Op::kRecv, Axis::kPipe, hidden);
    }
  }
  /// The gradient of the last stage's copy of the table, and new values for it.
  void shared_table() {
    const std::int64_t elements = vocabulary_ / gz_ * spec_.width;
    if (stages_.front().first) {
      add(Op::kRecv, Axis::kPipe, elements * master_);
      add(Op::kSend, Axis::kPipe, elements * e_);
    }
    if (stages_.back().last) {
      add(Op::kSend, Axis::kPipe, elements * master_);
      add(Op::kRecv, Axis::kPipe, elements * e_);
    }
  }

  void add(Op op, const Axes& axes, const Payload& payload) { operations_.add(op, axes, payload); }
  void add_sum(const Axes& axes, const Payload& payload) {
    add(Op::kReduceScatter, axes, payload.in_background(recipe_.overlap.weight_gradients));
  }
  /// Of a matrix' gradient.
  void sum(const Axes& axes, const Payload& payload) {
    if (sums_) add_sum(axes, payload);
  }
  /// Activations go part by part.
  void part(Op op, const Axes& axes, const Payload& payload) {
    for (const std::int64_t samples : parts()) {
      add(op, axes, {payload.count * samples / samples_, payload.type});
    }
  }

  /// The samples of a rank in the parts that they go in: in two halves where that can be.
  std::vector<std::int64_t> parts() const {
    const std::vector<std::int64_t> halves = {samples_ - samples_ / 2, samples_ / 2};
    if (!recipe_.overlap.halves || gx_ * gy_ == 1 || samples_ < 2) return {samples_};
    for (const std::int64_t half : halves) {
      if (!heads_ && half % gx_ != 0) return {samples_};
      if (sharded_ && (half * spec_.context % gx_ != 0 || half * spec_.context % gy_ != 0)) {
        return {samples_};
      }
    }
    return halves;
  }

  /// n elements split over an axis of that size and then z, with padding.
  std::int64_t split_twice(std::int64_t n, std::int64_t size) const {
    return size * gz_ * up(up(n, size), gz_);
  }

  struct Layer {
    std::int64_t in;
    std::int64_t out;
    bool transposed;
    bool copies_in;   // whole on every rank along the produced axis
    bool copies_out;  // and along the contracted one
  };
  std::vector<Layer> make_layers() const {
    const bool copies = !sharded_;
    const std::vector<Anatomy::Product>& products = model_.products;
    return {{products[0].in, products[0].out, false, copies, false},
            {products[1].in, products[1].out, true, false, copies},
            {products[2].in, products[2].out, false, copies, copies},
            {products[3].in, products[3].out, true, copies, copies}};
  }

  Axis contract(const Layer& layer) const { return layer.transposed ? Axis::kY : Axis::kX; }
  Axis produce(const Layer& layer) const { return layer.transposed ? Axis::kX : Axis::kY; }
  /// Of the block that is gathered over z.
  std::int64_t weight_elements(const Layer& layer) const {
    const std::int64_t rows = layer.out / grid_.size(produce(layer));
    return gz_ * up(rows, gz_) * (layer.in / grid_.size(contract(layer)));
  }
  Payload input(const Layer& layer) const {
    return m_ * layer.in / grid_.size(contract(layer)) * e_;
  }
  Payload output(const Layer& layer) const {
    return m_ * layer.out / grid_.size(produce(layer)) * e_;
  }

  void linear_forward(const Layer& layer) {
    if (!layer.copies_in) part(Op::kAllGather, produce(layer), input(layer));
    part(layer.copies_out ? Op::kAllReduce : Op::kReduceScatter, contract(layer), output(layer));
  }
  void linear_backward(const Layer& layer) {
    if (!layer.copies_in) part(Op::kAllGather, produce(layer), input(layer));
    if (!layer.copies_out) part(Op::kAllGather, contract(layer), output(layer));
    part(layer.copies_in ? Op::kAllReduce : Op::kReduceScatter, produce(layer), input(layer));
    // What is computed again is in use only then.
    if (sums_ || spec_.execution.checkpoint) {
      add_sum(Axis::kZ, weight_elements(layer) * e_);
    }
  }

  void norm_forward() {
    if (!model_.layer_norm) return part(Op::kAllReduce, Axis::kX, hidden_rows_ * f_);
    part(Op::kAllGather, Axis::kX, 2 * gx_ * hidden_rows_ * f_);
  }
  void norm_backward() {
    part(Op::kAllReduce, Axis::kX, (model_.layer_norm ? 2 : 1) * hidden_rows_ * f_);
  }

  /// Keys and values, or their gradients, of the ranks that share a head of them. Where attention
  /// is split by samples, a rank has fewer rows.
  void share(Op op) {
    const Axes axes = heads_ ? Axes{Axis::kY, Axis::kX} : Axes(Axis::kY);
    const std::int64_t sharers = model_.sharers(grid_.size(axes));
    const std::int64_t rows = heads_ ? m_ : m_ / gx_;
    for (const std::int64_t samples : parts()) {
      operations_.add_part(op, axes, static_cast<int>(sharers),
                           model_.shared_elements(rows) * samples / samples_ * e_);
    }
  }

  void block_forward() {
    norm_forward();
    norm_forward();
    for (const Layer& layer : layers_) linear_forward(layer);
    share(Op::kAllGather);
  }
  void block_backward() {
    norm_backward();
    norm_backward();
    for (const Layer& layer : layers_) linear_backward(layer);
    share(Op::kReduceScatter);
    vectors_.add_sums(operations_, model_.vectors);
  }

  void spread() {
    const std::int64_t elements = m_ * spec_.width;
    if (sharded_) return part(Op::kReduceScatter, {Axis::kX, Axis::kY}, elements * e_);
    part(Op::kReduceScatter, Axis::kX, elements * e_);
    part(Op::kAllReduce, Axis::kY, elements / gx_ * e_);
  }
  void collect() {
    part(Op::kAllGather, sharded_ ? Axes{Axis::kX, Axis::kY} : Axes(Axis::kX),
         m_ * spec_.width * e_);
  }
  std::int64_t position_elements() const {
    return split_twice(spec_.context, gy_) * spec_.width / gx_;
  }
  void positions() {
    if (!model_.positions) return;
    if (sharded_) {
      sum({Axis::kY, Axis::kZ}, position_elements() * master_);
    } else {
      sum(Axis::kZ, position_elements() / gy_ * master_);
    }
  }

  // --- the optimizer

  void update(const std::vector<std::int64_t>& sizes, const Type& type) {
    add_update(operations_, grid_, recipe_, {Axis::kData, sizes, type});
  }
  /// Elements of a rank's shard of each matrix, with padding.
  std::vector<std::int64_t> embedding_sizes() const {
    if (!stages_.front().first) return {};
    std::vector<std::int64_t> all = {vocabulary_ / gz_ * spec_.width};
    if (model_.positions) all.push_back(position_elements() / (gy_ * gz_));
    return all;
  }
  std::vector<std::int64_t> matrix_sizes() const {
    std::vector<std::int64_t> all;
    for (const model::Stage& stage : stages_) {
      for (std::int64_t i = 0; i < stage.blocks.size(); ++i) {
        for (const Layer& layer : layers_) all.push_back(weight_elements(layer) / gz_);
      }
    }
    if (!spec_.tied && stages_.back().last) all.push_back(vocabulary_ / gz_ * spec_.width);
    return all;
  }
  std::vector<std::int64_t> vector_sizes() const {
    std::vector<std::int64_t> all;
    for (const model::Stage& stage : stages_) {
      for (std::int64_t i = 0; i < stage.blocks.size(); ++i) {
        for (const Anatomy::Vector& vector : model_.vectors)
          all.push_back(vectors_.own_size(vector));
      }
    }
    if (!stages_.back().last) return all;
    for (const Anatomy::Vector& vector : model_.last_vectors)
      all.push_back(vectors_.own_size(vector));
    return all;
  }

  const grid::Grid& grid_;
  const train::Recipe& recipe_;
  const Anatomy model_;
  const model::Frame& spec_;
  int places_, place_;                // along pipe
  std::vector<model::Stage> stages_;  // of this place, one for each chunk
  bool sums_ = true;                  // gradients of matrices, in this pass
  std::int64_t gx_, gy_, gz_;
  bool sharded_;
  bool heads_;  // attention is split by heads
  Type e_, master_, f_;
  std::int64_t samples_;      // of a rank
  std::int64_t m_;            // their rows
  std::int64_t hidden_rows_;  // of the hidden state
  std::vector<Layer> layers_ = make_layers();
  std::int64_t vocabulary_;  // padded rows of the table, gathered over z
  VectorsForm vectors_;
  Operations operations_;
};

}  // namespace

CallsBy closed_form(const grid::Grid& grid, const train::Recipe& recipe, int rank) {
  if (recipe.model->execution().product == nn::ProductKind::kSumma)
    return summa_form(grid, recipe, rank);
  return Forms(grid, recipe, rank).all();
}

}  // namespace fourfold::test
