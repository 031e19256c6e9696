// SPDX-License-Identifier: Apache-2.0
#include "tests/train/closed_forms.hpp"

#include <sstream>

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
  Forms(const grid::Grid& grid, const train::Recipe& recipe)
      : grid_(grid),
        recipe_(recipe),
        spec_(recipe.model),
        gx_(grid.size(Axis::kX)),
        gy_(grid.size(Axis::kY)),
        gz_(grid.size(Axis::kZ)),
        sharded_(spec_.activations == nn::Activations::kSharded),
        heads_(spec_.heads % (gx_ * gy_) == 0),
        e_(static_cast<std::int64_t>(c10::elementSize(spec_.precision.compute))),
        master_(static_cast<std::int64_t>(c10::elementSize(spec_.precision.master))),
        f_(std::max<std::int64_t>(e_, 4)),
        m_(recipe.micro_batch * spec_.context / grid.size({Axis::kData, Axis::kZ})),
        hidden_rows_(sharded_ ? m_ / gy_ : m_),
        parts_(halves() ? 2 : 1),
        keeps_(recipe.overlap.keep_weights),
        vocabulary_(gz_ * up(up(up(spec_.vocabulary, gy_), gx_), gz_)) {}

  CallsBy all() {
    for (std::int64_t i = 0; i < recipe_.batch / recipe_.micro_batch; ++i) pass();
    // Vectors are kept in the master type.
    optimizer(embedding_sizes(), e_);
    optimizer(matrix_sizes(), e_);
    optimizer(vector_sizes(), master_);
    add(Op::kAllReduce, grid_.everyone(0).axes, 2 * 8);  // loss and norm
    return result_;
  }

 private:
  void pass() {
    const std::int64_t h = spec_.width;
    lookup();
    positions();
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      block_vectors();
      for (int pass = 0; pass < (spec_.checkpoint ? 2 : 1); ++pass) block_forward(pass == 0);
      block_backward(i == spec_.layers - 1);
    }
    norm_forward();
    norm_backward();
    gather({Axis::kY, Axis::kZ}, 2 * split_twice(h / gx_, gy_) * master_);
    reduce_vectors(2 * split_twice(h / gx_, gy_), 0, 0);
    logits();
    part(Op::kAllReduce, {Axis::kY, Axis::kX}, m_ * f_);
    part(Op::kAllReduce, {Axis::kY, Axis::kX}, 2 * m_ * f_);
    add(Op::kReduceScatter, Axis::kZ, vocabulary_ * h * master_);
    if (!spec_.tied) add(Op::kReduceScatter, Axis::kZ, vocabulary_ * h * master_);
  }

  void add(Op op, const Axes& axes, std::int64_t payload, std::int64_t calls_of_it = 1) {
    if (grid_.size(axes) == 1) return;
    Calls& calls = result_[{op, grid::to_string(axes)}];
    calls.calls += calls_of_it;
    calls.payload += payload;
  }
  void gather(const Axes& axes, std::int64_t payload) { add(Op::kAllGather, axes, payload); }
  /// Activations go part by part.
  void part(Op op, const Axes& axes, std::int64_t payload) { add(op, axes, payload, parts_); }

  /// Whether a rank's samples go in two halves.
  bool halves() const {
    const std::int64_t samples = recipe_.micro_batch / grid_.size({Axis::kData, Axis::kZ});
    if (!recipe_.overlap.halves || gx_ * gy_ == 1 || samples < 2) return false;
    for (const std::int64_t half : {samples / 2, samples - samples / 2}) {
      if (!heads_ && half % gx_ != 0) return false;
      if (sharded_ && (half * spec_.context % gx_ != 0 || half * spec_.context % gy_ != 0)) {
        return false;
      }
    }
    return true;
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
  const std::vector<Layer>& layers() const { return layers_; }
  std::vector<Layer> make_layers() const {
    const std::int64_t h = spec_.width;
    const bool copies = !sharded_;
    return {{h, 3 * h, false, copies, false},
            {h, h, true, false, copies},
            {h, 4 * h, false, copies, copies},
            {4 * h, h, true, copies, copies}};
  }

  Axis contract(const Layer& layer) const { return layer.transposed ? Axis::kY : Axis::kX; }
  Axis produce(const Layer& layer) const { return layer.transposed ? Axis::kX : Axis::kY; }
  std::int64_t weight_bytes(const Layer& layer) const {
    const std::int64_t rows = layer.out / grid_.size(produce(layer));
    return gz_ * up(rows, gz_) * (layer.in / grid_.size(contract(layer))) * e_;
  }
  std::int64_t input_bytes(const Layer& layer) const {
    return m_ * layer.in / grid_.size(contract(layer)) * e_;
  }
  std::int64_t output_bytes(const Layer& layer) const {
    return m_ * layer.out / grid_.size(produce(layer)) * e_;
  }

  void linear_forward(const Layer& layer) {
    if (!layer.copies_in) part(Op::kAllGather, produce(layer), input_bytes(layer));
    part(layer.copies_out ? Op::kAllReduce : Op::kReduceScatter, contract(layer),
         output_bytes(layer));
  }
  void linear_backward(const Layer& layer) {
    if (!layer.copies_in) part(Op::kAllGather, produce(layer), input_bytes(layer));
    if (!layer.copies_out) part(Op::kAllGather, contract(layer), output_bytes(layer));
    part(layer.copies_in ? Op::kAllReduce : Op::kReduceScatter, produce(layer), input_bytes(layer));
    add(Op::kReduceScatter, Axis::kZ, weight_bytes(layer));
  }

  void norm_forward() { part(Op::kAllGather, Axis::kX, 2 * gx_ * hidden_rows_ * f_); }
  void norm_backward() { part(Op::kAllReduce, Axis::kX, 2 * hidden_rows_ * f_); }

  void block_forward(bool first) {
    norm_forward();
    norm_forward();
    for (const Layer& layer : layers()) {
      linear_forward(layer);
      if (first || !keeps_) gather(Axis::kZ, weight_bytes(layer));
    }
  }
  void block_backward(bool last) {
    norm_backward();
    norm_backward();
    for (const Layer& layer : layers()) {
      linear_backward(layer);
      // The last two of a block that was just computed again are still there, or the last of all.
      const std::int64_t number = &layer - layers_.data();
      const bool there = spec_.checkpoint ? number >= 2 : last && number == 3;
      if (!there && !keeps_) gather(Axis::kZ, weight_bytes(layer));
    }
  }

  /// Elements of the vectors of a block whose columns are split over x, over y, and over both.
  void block_vectors() {
    const std::int64_t h = spec_.width;
    const std::int64_t by_x = 6 * split_twice(h / gx_, gy_);
    std::int64_t by_y = split_twice(4 * h / gy_, gx_);
    std::int64_t by_both = 0;
    if (heads_) {
      by_both = gz_ * up(3 * h / (gx_ * gy_), gz_);
    } else {
      by_y += split_twice(3 * h / gy_, gx_);
    }
    gather({Axis::kY, Axis::kZ}, by_x * master_);
    gather({Axis::kX, Axis::kZ}, by_y * master_);
    if (by_both > 0) gather(Axis::kZ, by_both * master_);
    // With samples split in attention, the rows of its bias are split over x in both settings.
    const std::int64_t always = heads_ ? 0 : split_twice(3 * h / gy_, gx_);
    reduce_vectors(by_x, by_y, by_both, always);
  }

  void reduce_vectors(std::int64_t by_x, std::int64_t by_y, std::int64_t by_both,
                      std::int64_t by_y_always = 0) {
    if (sharded_) {
      add(Op::kReduceScatter, {Axis::kY, Axis::kZ}, by_x * master_);
      if (by_y > 0) add(Op::kReduceScatter, {Axis::kX, Axis::kZ}, by_y * master_);
      if (by_both > 0) add(Op::kReduceScatter, Axis::kZ, by_both * master_);
      return;
    }
    // All are summed over z alone, each rank its own part: one operation.
    const std::int64_t own = by_x / gy_ + (by_y - by_y_always) / gx_ + by_both;
    add(Op::kReduceScatter, Axis::kZ, own * master_);
    if (by_y_always > 0) add(Op::kReduceScatter, {Axis::kX, Axis::kZ}, by_y_always * master_);
  }

  void spread() {
    const std::int64_t bytes = m_ * spec_.width * e_;
    if (sharded_) return part(Op::kReduceScatter, {Axis::kX, Axis::kY}, bytes);
    part(Op::kReduceScatter, Axis::kX, bytes);
    part(Op::kAllReduce, Axis::kY, bytes / gx_);
  }
  void collect() {
    part(Op::kAllGather, sharded_ ? Axes{Axis::kX, Axis::kY} : Axes(Axis::kX),
         m_ * spec_.width * e_);
  }
  void lookup() {
    gather(Axis::kZ, vocabulary_ * spec_.width * e_);
    spread();
    collect();
  }
  void logits() {
    // Once for both directions; and if all is kept, the lookup has left a tied table.
    if (!spec_.tied || !keeps_) gather(Axis::kZ, vocabulary_ * spec_.width * e_);
    collect();
    collect();
    spread();
  }
  void positions() {
    const std::int64_t elements = split_twice(spec_.context, gy_) * spec_.width / gx_;
    gather({Axis::kY, Axis::kZ}, elements * e_);
    if (sharded_) {
      add(Op::kReduceScatter, {Axis::kY, Axis::kZ}, elements * master_);
    } else {
      add(Op::kReduceScatter, Axis::kZ, elements / gy_ * master_);
    }
  }

  /// Elements of a rank's shard of each matrix, with padding.
  std::vector<std::int64_t> embedding_sizes() const {
    return {vocabulary_ / gz_ * spec_.width,
            split_twice(spec_.context, gy_) / (gy_ * gz_) * spec_.width / gx_};
  }
  std::vector<std::int64_t> matrix_sizes() const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      for (const Layer& layer : layers()) all.push_back(weight_bytes(layer) / (gz_ * e_));
    }
    if (!spec_.tied) all.push_back(vocabulary_ / gz_ * spec_.width);
    return all;
  }
  std::vector<std::int64_t> vector_sizes() const {
    const std::int64_t h = spec_.width;
    const std::int64_t by_x = split_twice(h / gx_, gy_) / (gy_ * gz_);
    const std::int64_t qkv =
        heads_ ? up(3 * h / (gx_ * gy_), gz_) : split_twice(3 * h / gy_, gx_) / (gx_ * gz_);
    const std::int64_t wide = split_twice(4 * h / gy_, gx_) / (gx_ * gz_);
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      all.insert(all.end(), {by_x, by_x, qkv, by_x, by_x, by_x, wide, by_x});
    }
    all.insert(all.end(), {by_x, by_x});
    return all;
  }
  /// Both ways along data: gradients in the master type, values of `bytes` bytes, in segments.
  void optimizer(const std::vector<std::int64_t>& sizes, std::int64_t bytes) {
    std::vector<std::int64_t> segment;
    std::int64_t sum = 0;
    const auto close = [&] {
      if (segment.empty()) return;
      const std::int64_t gradients = flat(segment) * master_;
      if (recipe_.optimizer.zero == optim::Zero::kNothing) {
        add(Op::kAllReduce, Axis::kData, gradients);
      } else {
        const bool each_pass = recipe_.optimizer.zero == optim::Zero::kGradients;
        const std::int64_t sums = each_pass ? recipe_.batch / recipe_.micro_batch : 1;
        add(Op::kReduceScatter, Axis::kData, sums * gradients, sums);
        gather(Axis::kData, flat(segment) * bytes);
      }
      segment.clear();
      sum = 0;
    };
    for (const std::int64_t size : sizes) {
      if (sum + size * master_ > recipe_.overlap.segment) close();
      segment.push_back(size);
      sum += size * master_;
    }
    close();
  }
  /// Of the memory that has them all, in equal parts for the ranks along data.
  std::int64_t flat(const std::vector<std::int64_t>& sizes) const {
    constexpr std::int64_t kUnit = 32;
    std::int64_t units = 0;
    for (const std::int64_t size : sizes) units += up(size, kUnit);
    const std::int64_t ranks = grid_.size(Axis::kData);
    return up(units, ranks) * ranks * kUnit;
  }

  const grid::Grid& grid_;
  const train::Recipe& recipe_;
  const model::GptSpec& spec_;
  std::int64_t gx_, gy_, gz_;
  bool sharded_;
  bool heads_;  // attention is split by heads
  std::int64_t e_, master_, f_;
  std::int64_t m_;            // rows of a rank's samples
  std::int64_t hidden_rows_;  // of the hidden state
  std::int64_t parts_;        // that the samples of a rank go in
  bool keeps_;                // gathered weights, all of them
  std::vector<Layer> layers_ = make_layers();
  std::int64_t vocabulary_;  // padded rows of the table, gathered over z
  CallsBy result_;
};

}  // namespace

CallsBy closed_form(const grid::Grid& grid, const train::Recipe& recipe) {
  return Forms(grid, recipe).all();
}

CallsBy counted(const comm::Counts& counts) {
  CallsBy result;
  for (const auto& [key, count] : counts) {
    Calls& calls = result[{key.op, key.axes}];
    calls.calls += count.calls;
    calls.payload += count.payload.value();
  }
  return result;
}

std::string to_string(const CallsBy& calls) {
  std::ostringstream out;
  for (const auto& [key, value] : calls) {
    out << key.first << " " << key.second << ": " << value.calls << " calls, " << value.payload
        << " bytes; ";
  }
  return out.str();
}

}  // namespace fourfold::test
