// SPDX-License-Identifier: Apache-2.0
#include "tests/train/summa_form.hpp"

#include "fourfold/kernels/elements.hpp"

#include "tests/train/anatomy.hpp"
#include "tests/train/operations_of_weights.hpp"

namespace fourfold::test {

namespace {

using grid::Axes;
using grid::Axis;
using schedule::Op;

class Forms {
 public:
  Forms(const grid::Grid& grid, const train::Recipe& recipe, int rank)
      : grid_(grid),
        recipe_(recipe),
        model_(anatomy_of(*recipe.model)),
        spec_(model_.frame),
        q_(grid.size(Axis::kX)),
        diagonal_(grid.coord_of(rank)[Axis::kX] == grid.coord_of(rank)[Axis::kY]),
        e_(spec_.execution.precision.compute),
        master_(spec_.execution.precision.master),
        f_(kernels::statistics_type(spec_.execution.precision.compute)),
        rows_(recipe.micro_batch * spec_.context / grid.size({Axis::kData, Axis::kZ, Axis::kY})),
        operations_(grid, rank) {}

  CallsBy all() {
    for (std::int64_t i = 0; i < recipe_.batch / recipe_.micro_batch; ++i) pass();
    update();
    add(Op::kAllReduce, grid_.everyone(0).axes, 4 * Type(at::kDouble));  // loss, norm and votes
    return operations_.all();
  }

 private:
  void pass() {
    const std::int64_t h = spec_.width;
    for (int way = 0; way < 2; ++way) {  // lookup and its gradient
      add(way == 0 ? Op::kReduceScatter : Op::kAllGather, Axis::kX, rows_ * h * e_);
      if (diagonal_) continue;
      add(Op::kSend, {Axis::kX, Axis::kY}, rows_ * h / q_ * e_);
      add(Op::kRecv, {Axis::kX, Axis::kY}, rows_ * h / q_ * e_);
    }
    if (model_.positions) {
      add(Op::kAllGather, {Axis::kY, Axis::kZ}, position_elements() * e_);
      add_sum(Op::kReduceScatter, {Axis::kY, Axis::kZ}, position_elements() * master_);
    }
    for (std::int64_t i = 0; i < spec_.layers; ++i) block();
    vectors(model_.last_vectors);
    norms(1);
    product(h, table_rows(), 1);
    add(Op::kAllReduce, Axis::kX, rows_ * f_);
    add(Op::kAllReduce, Axis::kX, 2 * rows_ * f_);
  }

  void add(Op op, const Axes& axes, const Payload& payload, int root = 0) {
    operations_.add(op, axes, payload, root);
  }
  /// Of a gradient of weights.
  void add_sum(Op op, const Axes& axes, const Payload& payload, int root = 0) {
    add(op, axes, payload.in_background(recipe_.overlap.weight_gradients), root);
  }
  /// n elements split over y and then z, with padding, times both.
  std::int64_t split(std::int64_t n) const {
    const std::int64_t y = grid_.size(Axis::kY);
    const std::int64_t z = grid_.size(Axis::kZ);
    return y * z * (((n + y - 1) / y + z - 1) / z);
  }
  void vectors(const std::vector<Anatomy::Vector>& all) {
    std::int64_t elements = 0;
    for (const Anatomy::Vector& vector : all) elements += split(vector.size / q_);
    add(Op::kAllGather, {Axis::kY, Axis::kZ}, elements * master_);
    add_sum(Op::kReduceScatter, {Axis::kY, Axis::kZ}, elements * master_);
  }
  /// One norm, so many times forward and once backward.
  void norms(std::int64_t forward) {
    if (!model_.layer_norm) {
      for (std::int64_t i = 0; i < forward + 1; ++i) add(Op::kAllReduce, Axis::kX, rows_ * f_);
      return;
    }
    for (std::int64_t i = 0; i < forward; ++i) add(Op::kAllGather, Axis::kX, 2 * q_ * rows_ * f_);
    add(Op::kAllReduce, Axis::kX, 2 * rows_ * f_);
  }
  /// One matrix product, so many times forward and once backward, panel by panel.
  void product(std::int64_t in, std::int64_t out, std::int64_t forward) {
    const Payload input = rows_ * in / q_ * e_;
    const Payload weight = in * out / (q_ * q_) * e_;
    for (int panel = 0; panel < q_; ++panel) {
      for (std::int64_t i = 0; i < forward + 1; ++i) {
        add(Op::kBroadcast, Axis::kX, input, panel);
        add(Op::kBroadcast, Axis::kY, weight, panel);
      }
      add(Op::kReduce, Axis::kX, input, panel);
      add_sum(Op::kReduce, Axis::kY, weight, panel);
    }
  }
  /// Keys and values, or their gradients, of the ranks that share a head of them.
  void share(Op op) {
    const auto sharers = static_cast<int>(model_.sharers(q_));
    operations_.add_part(op, Axis::kX, sharers, model_.shared_elements(rows_) * e_);
  }
  void block() {
    const std::int64_t forward = spec_.execution.checkpoint ? 2 : 1;
    vectors(model_.vectors);
    norms(forward);
    norms(forward);
    for (const auto& [in, out] : model_.products) product(in, out, forward);
    for (std::int64_t i = 0; i < forward; ++i) share(Op::kAllGather);
    share(Op::kReduceScatter);
  }

  std::int64_t position_elements() const { return split(spec_.context) * spec_.width / q_; }
  std::int64_t table_rows() const { return q_ * ((spec_.vocabulary + q_ - 1) / q_); }

  /// Ranks along z hold the same weights and tables, and each its part of all else.
  void update() {
    const std::int64_t h = spec_.width;
    const std::int64_t table = table_rows() * h / (q_ * q_);
    const std::int64_t yz = grid_.size({Axis::kY, Axis::kZ});
    std::vector<std::int64_t> positions;
    if (model_.positions) positions.push_back(position_elements() / yz);
    if (grid_.size(Axis::kZ) == 1) {
      positions.insert(positions.begin(), table);
    } else {
      add_update(operations_, grid_, recipe_, {weight_replicas(), {table}, e_});
    }
    add_update(operations_, grid_, recipe_, {Axis::kData, positions, e_});
    std::vector<std::int64_t> matrices;
    std::vector<std::int64_t> vectors;
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      for (const auto& [in, out] : model_.products) matrices.push_back(in * out / (q_ * q_));
      for (const Anatomy::Vector& vector : model_.vectors) {
        vectors.push_back(split(vector.size / q_) / yz);
      }
    }
    if (!spec_.tied) matrices.push_back(table);
    for (const Anatomy::Vector& vector : model_.last_vectors) {
      vectors.push_back(split(vector.size / q_) / yz);
    }
    add_update(operations_, grid_, recipe_, {weight_replicas(), matrices, e_});
    add_update(operations_, grid_, recipe_, {Axis::kData, vectors, master_});
  }
  Axes weight_replicas() const {
    return grid_.size(Axis::kZ) == 1 ? Axes(Axis::kData) : Axes{Axis::kData, Axis::kZ};
  }

  const grid::Grid& grid_;
  const train::Recipe& recipe_;
  const Anatomy model_;
  const model::Frame& spec_;
  std::int64_t q_;  // the side of the square
  bool diagonal_;   // this rank lies on it
  Type e_, master_, f_;
  std::int64_t rows_;  // of a rank
  Operations operations_;
};

}  // namespace

CallsBy summa_form(const grid::Grid& grid, const train::Recipe& recipe, int rank) {
  return Forms(grid, recipe, rank).all();
}

}  // namespace fourfold::test
