// SPDX-License-Identifier: Apache-2.0
#include "tests/train/unet_anatomy.hpp"

#include <map>
#include <numeric>
#include <set>

#include "fourfold/base/text.hpp"

namespace fourfold::test {

using grid::Axes;
using grid::Axis;
using schedule::Op;

namespace {

std::int64_t up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

const Axes& x_y() {
  static const Axes axes = {Axis::kX, Axis::kY};
  return axes;
}

}  // namespace

UNetAnatomist::UNetAnatomist(const grid::Grid& grid, const model::UNetSpec& spec,
                             std::int64_t samples, int rank)
    : grid_(&grid),
      spec_(&spec),
      samples_(samples),
      rank_(rank),
      both_(grid.size(x_y())),
      sharded_(spec.execution.activations == nn::Activations::kSharded) {}

UNetAnatomist::Level UNetAnatomist::level_of(const model::UNetImages& images) {
  if (images.transposed) return {Axis::kY, Axis::kX};
  return {Axis::kX, Axis::kY};
}

std::int64_t UNetAnatomist::images(const model::UNetImages& images) const {
  const std::int64_t ranks = sharded_ ? both_ : size(level_of(images).a);
  return samples_ * images.size * images.size * images.channels / ranks;
}

/// Rows split over the axes one after the other, each with padding.
std::int64_t UNetAnatomist::padded(std::int64_t rows, const Axes& axes) const {
  std::int64_t ranks = 1;
  for (const Axis axis : axes) {
    rows = up(rows, size(axis));
    ranks *= size(axis);
  }
  return rows * ranks;
}

UNetParameter UNetAnatomist::parameter(const std::string& name, std::int64_t rows,
                                       std::int64_t each, const Axes& gathered) const {
  const std::int64_t elements = padded(rows, gathered) * each;
  const std::int64_t same = gathered.size() == 2 ? size(gathered[0]) : 1;
  return {name, gathered, elements, elements / same};
}

/// Of channels over (a, b), or over a with copies along b.
void UNetAnatomist::add_vector(UNetAnatomy& to, std::int64_t length, const Level& level,
                               bool columns) const {
  const std::string name = concat("vector ", to.vectors.size());
  to.vectors.push_back(columns ? parameter(name, length / both_, 1, Axis::kZ)
                               : parameter(name, length / size(level.a), 1, {level.b, Axis::kZ}));
}

/// Contracts over a and produces over b.
void UNetAnatomist::add_conv(UNetAnatomy& to, const Conv& conv, const Level& level) const {
  const auto [c, p] = level;
  for (const Term& term : conv.terms) {
    const UNetParameter weight =
        parameter(term.name, conv.out / size(p), term.taps * term.in / size(c), Axis::kZ);
    to.forward_weights.push_back(weight);
    to.backward_weights.push_back(weight);
    const std::int64_t input = samples_ * term.pixels * term.in / size(c);
    if (conv.columns_in) {
      to.forward.push_back({Op::kAllGather, p, input});
      to.backward.push_back({Op::kAllGather, p, input});
      to.backward.push_back({Op::kReduceScatter, p, input});
    } else {
      to.backward.push_back({Op::kAllReduce, p, input});
    }
  }
  const std::int64_t output = samples_ * conv.pixels * conv.out / size(p);
  if (conv.columns_out) {
    to.forward.push_back({Op::kReduceScatter, c, output});
    to.backward.push_back({Op::kAllGather, c, output});
  } else {
    to.forward.push_back({Op::kAllReduce, c, output});
  }
  for (int i = 0; i < conv.biases; ++i) {
    add_vector(to, conv.out, level.turned(), conv.columns_out);
  }
}

/// Channels over (a, b), or over a with copies along b. Ranks tell each other the numbers of their
/// segments of groups, if a group lies on several of them.
void UNetAnatomist::add_norm(UNetAnatomy& to, const std::vector<std::int64_t>& parts,
                             const Level& level) const {
  const Axes axes = sharded_ ? Axes{level.a, level.b} : Axes(level.a);
  const std::int64_t width =
      std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) / spec_->groups;
  std::map<std::int64_t, std::set<std::int64_t>> ranks_of_group;
  std::size_t most = 0;
  for (std::int64_t rank = 0; rank < size(axes); ++rank) {
    std::set<std::pair<std::size_t, std::int64_t>> segments;  // of a part and a group
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::int64_t own = parts[k] / size(axes);
      for (std::int64_t i = offset + rank * own; i < offset + (rank + 1) * own; ++i) {
        segments.insert({k, i / width});
        ranks_of_group[i / width].insert(rank);
      }
      offset += parts[k];
    }
    most = std::max(most, segments.size());
  }
  const bool spans = std::any_of(ranks_of_group.begin(), ranks_of_group.end(),
                                 [](const auto& group) { return group.second.size() > 1; });
  const std::int64_t numbers = 2 * size(axes) * static_cast<std::int64_t>(most) * samples_;
  for (auto* operations : {&to.forward, &to.backward}) {
    if (spans) operations->push_back({Op::kAllGather, axes, numbers, true});
  }
  for (const std::int64_t part : parts) {
    for (int i = 0; i < 2; ++i) add_vector(to, part, level, sharded_);
  }
}

void UNetAnatomist::add_linear(UNetAnatomy& to, const std::string& name, std::int64_t out,
                               std::int64_t in, bool needs_input_gradient) const {
  const UNetParameter weight = parameter(name, out / both_, in, Axis::kZ);
  to.forward_weights.push_back(weight);
  if (needs_input_gradient) to.backward_weights.push_back(weight);
  add_vector(to, out, {Axis::kX, Axis::kY}, true);
}

void UNetAnatomist::add_swap(UNetAnatomy& to, std::int64_t elements, const Level& level) const {
  const grid::Coord coord = grid_->coord_of(rank_);
  const bool moves = grid_->index_along({Axis::kX, Axis::kY}, coord) !=
                     grid_->index_along({Axis::kY, Axis::kX}, coord);
  for (auto* operations : {&to.forward, &to.backward}) {
    for (const Op op : {Op::kSend, Op::kRecv}) {
      if (moves) operations->push_back({op, x_y(), elements / both_});
    }
  }
  if (sharded_) return;
  to.forward.push_back({Op::kAllGather, level.a, elements / size(level.b)});
  to.backward.push_back({Op::kAllGather, level.b, elements / size(level.a)});
}

// --- the pieces of a network

UNetAnatomy UNetAnatomist::entry() const {
  UNetAnatomy all;
  const std::int64_t width = spec_->embedding();
  add_linear(all, "time.0", width, spec_->channels, false);
  add_linear(all, "time.2", width, width, true);
  for (int i = 0; i < 2; ++i) {
    all.forward.push_back({Op::kAllGather, x_y(), samples_ * width});
    all.backward.push_back({Op::kReduceScatter, x_y(), samples_ * width});
  }
  const std::int64_t each = 9 * spec_->colours;
  all.forward_weights.push_back(
      sharded_ ? parameter("first", spec_->channels / both_, each, Axis::kZ)
               : parameter("first", spec_->channels / size(Axis::kX), each, {Axis::kY, Axis::kZ}));
  add_vector(all, spec_->channels, {Axis::kX, Axis::kY}, sharded_);
  return all;
}

UNetAnatomy UNetAnatomist::exit() const {
  UNetAnatomy all;
  const std::int64_t in = spec_->multipliers[0] * spec_->channels;
  add_norm(all, {in}, {Axis::kX, Axis::kY});
  const Axes split = sharded_ ? x_y() : Axes(Axis::kX);
  const Axes gathered = sharded_ ? Axes(Axis::kZ) : Axes{Axis::kY, Axis::kZ};
  const UNetParameter weight = parameter("last", spec_->outputs(), 9 * in / size(split), gathered);
  all.forward_weights = all.backward_weights = {weight};
  // There may be more ranks than elements of the bias.
  std::int64_t rows = spec_->outputs();
  for (const Axis axis : split) rows = up(rows, size(axis));
  all.vectors.push_back(parameter("bias", rows, 1, gathered));
  all.forward.push_back({Op::kAllReduce, split, samples_ * spec_->pixels() * spec_->outputs()});
  return all;
}

UNetAnatomy UNetAnatomist::block(const model::UNetBlockSpec& block) const {
  using Kind = model::UNetBlockSpec::Kind;
  UNetAnatomy all = block.kind == Kind::kResidual    ? residual(block)
                    : block.kind == Kind::kAttention ? attention(block)
                                                     : resampling(block);
  for (auto* weights : {&all.forward_weights, &all.backward_weights}) {
    for (UNetParameter& weight : *weights) weight.name = block.name + weight.name;
  }
  return all;
}

UNetAnatomy UNetAnatomist::residual(const model::UNetBlockSpec& block) const {
  UNetAnatomy all;
  const Level level = level_of(block.output);
  const std::int64_t pixels = block.output.size * block.output.size;
  const std::int64_t out = block.output.channels;
  std::vector<std::int64_t> parts;
  for (const model::UNetImages& one : block.inputs) parts.push_back(one.channels);
  add_norm(all, parts, level);
  add_linear(all, "film", 2 * out, spec_->embedding(), true);
  if (!sharded_)
    all.forward.push_back({Op::kAllGather, level.a, samples_ * 2 * out / size(level.b)});
  Conv first{"in", {}, out, pixels, sharded_, sharded_};
  for (const std::int64_t part : parts) {
    first.terms.push_back({concat("in", first.terms.size()), part, 9, pixels});
  }
  add_conv(all, first, level);
  add_norm(all, {out}, level.turned());
  Conv second{"out", {{"out", out, 9, pixels}}, out, pixels, sharded_, sharded_};
  if (block.in_channels() != out) {
    second.biases = 2;
    for (const std::int64_t part : parts) {
      second.terms.push_back({concat("skip", second.terms.size()), part, 1, pixels});
      add_swap(all, samples_ * pixels * part, level);
    }
  }
  add_conv(all, second, level.turned());
  // Backward the second convolution comes first, and the film last.
  std::vector<UNetParameter> back;
  for (const char* begin : {"out", "skip", "in", "film"}) {
    for (const UNetParameter& weight : all.backward_weights) {
      if (weight.name.starts_with(begin)) back.push_back(weight);
    }
  }
  all.backward_weights = back;
  return all;
}

UNetAnatomy UNetAnatomist::attention(const model::UNetBlockSpec& block) const {
  UNetAnatomy all;
  const Level level = level_of(block.output);
  const std::int64_t pixels = block.output.size * block.output.size;
  const std::int64_t channels = block.output.channels;
  const bool by_heads = spec_->heads % both_ == 0;
  add_norm(all, {channels}, level);
  add_conv(all, {"qkv", {{"qkv", channels, 1, pixels}}, 3 * channels, pixels, sharded_, by_heads},
           level);
  add_conv(
      all,
      {"projection", {{"projection", channels, 1, pixels}}, channels, pixels, by_heads, sharded_},
      level.turned());
  std::swap(all.backward_weights[0], all.backward_weights[1]);
  return all;
}

UNetAnatomy UNetAnatomist::resampling(const model::UNetBlockSpec& block) const {
  UNetAnatomy all;
  const std::int64_t small = block.inputs[0].size;
  const bool is_down = block.kind == model::UNetBlockSpec::Kind::kDown;
  const std::int64_t in = is_down ? small : 2 * small;
  const std::int64_t out = is_down ? small / 2 : 2 * small;
  const std::int64_t channels = block.output.channels;
  add_conv(all, {"conv", {{"conv", channels, 9, in * in}}, channels, out * out, sharded_, sharded_},
           level_of(block.inputs[0]));
  return all;
}

}  // namespace fourfold::test
