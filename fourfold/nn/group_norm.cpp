// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/group_norm.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/channels.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using kernels::Segment;

Axes channel_axes(bool transposed, Activations activations) {
  const Axis first = transposed ? Axis::kY : Axis::kX;
  const Axis second = transposed ? Axis::kX : Axis::kY;
  return activations == Activations::kSharded ? Axes({first, second}) : Axes(first);
}

std::string GroupNorm::misfit(const GroupNormSpec& spec, const grid::Sizes& sizes) {
  const std::int64_t channels =
      std::accumulate(spec.parts.begin(), spec.parts.end(), std::int64_t{0});
  if (spec.groups < 1 || channels % spec.groups != 0) {
    return concat(spec.name, ": ", channels, " channels cannot be divided into ", spec.groups,
                  " groups; choose model.groups that divides them");
  }
  std::int64_t ranks = spec.transposed ? sizes.y : sizes.x;
  const bool sharded = spec.activations == Activations::kSharded;
  if (sharded) ranks = std::int64_t{sizes.x} * sizes.y;
  for (const std::int64_t part : spec.parts) {
    if (part % ranks == 0) continue;
    return concat(spec.name, ": ", part, " channels cannot be split over ",
                  sharded ? "x times y" : (spec.transposed ? "y" : "x"), " = ", ranks,
                  "; choose sizes that divide them");
  }
  return {};
}

GroupNorm::GroupNorm(const Mesh& mesh, const GroupNormSpec& spec, const Precision& precision,
                     std::uint64_t seed)
    : Layer(mesh, spec.name), spec_(spec), axes_(channel_axes(spec.transposed, spec.activations)) {
  FOURFOLD_CHECK(!spec.film || spec.parts.size() == 1, spec.name,
                 ": a scale and shift by sample is for one part");
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  map_groups();
  if (spans_) mesh.join(axes_);
  const Precision wide{precision.master, precision.master};
  ParameterSpec vector{
      .name = {}, .shape = {}, .kept = axes_, .gathered = Axis::kZ, .summed = Axis::kZ};
  if (spec.activations == Activations::kReplicated) {
    vector.gathered = {spec.transposed ? Axis::kX : Axis::kY, Axis::kZ};
  }
  for (const bool scale : {true, false}) {
    for (std::size_t i = 0; i < spec.parts.size(); ++i) {
      const std::string suffix = spec.parts.size() > 1 ? concat(".", i) : std::string();
      vector.name = concat(spec.name, scale ? ".weight" : ".bias", suffix);
      vector.shape = {spec.parts[i]};
      vector.mean = scale ? 1 : 0;
      (scale ? scales_ : shifts_).push_back(declare(vector, wide, seed));
    }
  }
}

namespace {

/// The segments of the rank at `place` of `places`.
std::vector<Segment> segments_of(const std::vector<std::int64_t>& parts, std::int64_t width,
                                 std::int64_t place, std::int64_t places) {
  std::vector<Segment> segments;
  std::int64_t offset = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::int64_t begin = offset + parts[part] / places * place;
    const std::int64_t end = begin + parts[part] / places;
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t group = at / width;
      const std::int64_t next = std::min(end, (group + 1) * width);
      segments.push_back({part, at - begin, next - begin, group});
      at = next;
    }
    offset += parts[part];
  }
  return segments;
}

}  // namespace

void GroupNorm::map_groups() {
  const std::int64_t channels =
      std::accumulate(spec_.parts.begin(), spec_.parts.end(), std::int64_t{0});
  const std::int64_t places = mesh_->size(axes_);
  std::vector<std::vector<Segment>> all;
  std::vector<std::set<std::int64_t>> ranks(static_cast<std::size_t>(spec_.groups));
  for (std::int64_t place = 0; place < places; ++place) {
    all.push_back(segments_of(spec_.parts, channels / spec_.groups, place, places));
    most_ = std::max(most_, static_cast<std::int64_t>(all.back().size()));
    for (const Segment& s : all.back()) ranks[static_cast<std::size_t>(s.group)].insert(place);
  }
  spans_ = std::any_of(ranks.begin(), ranks.end(), [](const auto& set) { return set.size() > 1; });
  const std::int64_t here = mesh_->index(axes_);
  map_.segments = all[static_cast<std::size_t>(here)];
  for (const Segment& own : map_.segments) {
    std::vector<kernels::Member> members;
    for (std::int64_t place = 0; place < places; ++place) {
      if (!spans_ && place != here) continue;
      const auto& segments = all[static_cast<std::size_t>(place)];
      for (std::size_t i = 0; i < segments.size(); ++i) {
        if (segments[i].group != own.group) continue;
        const std::int64_t line = (spans_ ? place * most_ : 0) + static_cast<std::int64_t>(i);
        members.push_back({line, segments[i].channels()});
      }
    }
    map_.members.push_back(std::move(members));
  }
}

// --- forward and backward

/// One call of the layer: what its nodes share, and what is in flight between them.
struct GroupNorm::Call {
  std::int64_t samples = 0;
  std::vector<Saved> inputs;
  std::vector<Saved> scales;
  std::vector<Saved> shifts;
  Saved film;
  bool has_film = false;
  std::vector<Tensor> means;     ///< of groups, for each channel of each sample
  std::vector<Tensor> inverses;  ///< of the deviations
  std::vector<Tensor> upstream;
  std::vector<kernels::ChannelScale> by;
  tensor::Pending lines;

  std::int64_t pixels() const { return inputs.front().get().size(0) / samples; }
  /// Numbers for each channel of a part.
  Tensor numbers(std::size_t part) const {
    const Tensor& input = inputs[part].get();
    return at::empty({samples, input.size(1)},
                     input.options().dtype(kernels::statistics_type(input.scalar_type())));
  }
  std::vector<Tensor> all_numbers() const {
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < inputs.size(); ++i) all.push_back(numbers(i));
    return all;
  }
  /// 1 + the scale by sample, or the shift by sample, in the type of statistics.
  Tensor film_of(std::int64_t which) const {
    const Tensor pairs = film.get().view({samples, -1, 2}).select(2, which);
    return which == 0 ? pairs.to(means.front().scalar_type()) + 1
                      : pairs.to(means.front().scalar_type());
  }
};

Tensor GroupNorm::new_lines(const Call& call) const {
  return at::zeros({most_, 2, call.samples}, call.means.front().options());
}

tensor::Pending GroupNorm::exchange(const Tensor& lines) const {
  if (!spans_) return tensor::Pending(lines);
  return tensor::all_gather(mesh_->comm(axes_), lines);
}

void GroupNorm::start_forward(Call& call) const {
  const LayerScope scope(name());
  call.means = call.all_numbers();
  call.inverses = call.all_numbers();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i].get();
    kernels::channel_moments(input, call.means[i], call.inverses[i]);
    mesh_->compute("norm statistics", tensor::loop_over(input, 2, 4));
  }
  Tensor lines = new_lines(call);
  kernels::segment_moments(map_, call.means, call.inverses, call.pixels(), lines);
  call.lines = exchange(lines);
}

std::vector<Tensor> GroupNorm::end_forward(Call& call) const {
  const LayerScope scope(name());
  const Tensor lines = call.lines.wait();
  kernels::group_moments(map_, lines, call.pixels(), spec_.epsilon, call.means, call.inverses);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i].get();
    Tensor scale = call.inverses[i] * call.scales[i].get();
    Tensor shift = call.shifts[i].get() - call.means[i] * scale;
    if (call.has_film) {
      const Tensor factor = call.film_of(0);
      scale = scale * factor;
      shift = shift * factor + call.film_of(1);
    }
    call.by.push_back({scale.contiguous(), shift.contiguous(), spec_.silu});
    results.push_back(at::empty_like(input));
    kernels::scale_channels(input, call.by.back(), results.back());
    mesh_->compute("norm", tensor::loop_over(input, 2, spec_.silu ? 6 : 2));
  }
  return results;
}

/// Returns the gradients of the vectors, and of the scale and shift by sample if there is one.
std::vector<Tensor> GroupNorm::start_backward(Call& call,
                                              const std::vector<Tensor>& upstream) const {
  const LayerScope scope(name());
  std::vector<Tensor> scale_gradients;
  std::vector<Tensor> shift_gradients;
  std::vector<Tensor> first;   // for each channel of each sample: the sum of the gradient of the
  std::vector<Tensor> second;  // normal value, and that of its product with the normal value
  Tensor film_gradient;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i].get();
    call.upstream.push_back(upstream[i].contiguous());
    Tensor sums = call.numbers(i);
    Tensor products = call.numbers(i);
    kernels::channel_sums(call.upstream[i], input, call.by[i], call.means[i], sums, products);
    mesh_->compute("norm sums", tensor::loop_over(input, 2, spec_.silu ? 10 : 4));
    products = products * call.inverses[i];
    const Tensor& scale = call.scales[i].get();
    if (call.has_film) {
      const Tensor of_scale = products * scale + sums * call.shifts[i].get();
      film_gradient = at::stack({of_scale, sums}, 2).flatten(1).to(call.film.get().scalar_type());
      const Tensor factor = call.film_of(0);
      sums = sums * factor;
      products = products * factor;
    }
    scale_gradients.push_back(products.sum(0));
    shift_gradients.push_back(sums.sum(0));
    first.push_back((sums * scale).contiguous());
    second.push_back((products * scale).contiguous());
  }
  Tensor lines = new_lines(call);
  kernels::segment_sums(map_, first, second, lines);
  call.lines = exchange(lines);
  std::vector<Tensor> gradients = scale_gradients;
  gradients.insert(gradients.end(), shift_gradients.begin(), shift_gradients.end());
  if (call.has_film) gradients.push_back(film_gradient);
  return gradients;
}

std::vector<Tensor> GroupNorm::end_backward(Call& call) const {
  const LayerScope scope(name());
  const Tensor lines = call.lines.wait();
  std::vector<Tensor> first = call.all_numbers();
  std::vector<Tensor> second = call.all_numbers();
  kernels::group_means(map_, lines, call.pixels(), first, second);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i].get();
    const Tensor& inverse = call.inverses[i];
    const kernels::ChannelGradient gradient{call.by[i].scale, -(inverse * inverse * second[i]),
                                            -(inverse * first[i])};
    results.push_back(at::empty_like(input));
    kernels::scale_channels_backward(call.upstream[i], input, call.by[i], call.means[i], gradient,
                                     results.back());
    mesh_->compute("norm dI", tensor::loop_over(input, 3, spec_.silu ? 12 : 5));
  }
  call.upstream.clear();
  return results;
}

Flow<std::vector<Tensor>> GroupNorm::flow(std::vector<Tensor> parts, Tensor film,
                                          std::int64_t samples, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(parts.size(), spec_.parts.size(), name());
  FOURFOLD_CHECK_EQ(film.defined(), spec_.film, name(), ": a scale and a shift by sample");
  const auto call = std::make_shared<Call>();
  call->samples = samples;
  call->has_film = spec_.film;
  variable_list vectors;
  for (const Parameters* list : {&scales_, &shifts_}) {
    for (const ParameterPtr& parameter : *list) {
      vectors.push_back(pass.vector(parameter));
      (list == &scales_ ? call->scales : call->shifts).emplace_back(vectors.back());
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    FOURFOLD_CHECK_EQ(parts[i].size(1) * mesh_->size(axes_), spec_.parts[i], name());
    FOURFOLD_CHECK(parts[i].is_contiguous(), name());
    call->inputs.emplace_back(parts[i]);
  }
  if (film.defined()) {
    call->film = Saved(film.contiguous());
    vectors.push_back(film);
  }
  const at::TensorOptions options = parts.front().options();
  const std::size_t count = parts.size();
  variable_list passed = node(
      name(), parts,
      [&](const variable_list&) -> variable_list {
        start_forward(*call);
        return {placeholder(options)};
      },
      [this, call](const variable_list&) -> variable_list { return end_backward(*call); });
  parts.clear();
  co_await Turn{spans_};

  passed.insert(passed.end(), vectors.begin(), vectors.end());
  co_return node(
      name(), passed, [&](const variable_list&) -> variable_list { return end_forward(*call); },
      [this, call, options, count](const variable_list& gradients) -> variable_list {
        variable_list results = {placeholder(options)};
        const std::vector<Tensor> more = start_backward(
            *call, {gradients.begin(), gradients.begin() + static_cast<std::ptrdiff_t>(count)});
        results.insert(results.end(), more.begin(), more.end());
        return results;
      });
}

}  // namespace fourfold::nn
