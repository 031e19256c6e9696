// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/transfer.hpp"

namespace fourfold::model {

using grid::Axis;

namespace {

/// A number in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t index) {
  const kernels::Key key = kernels::key_of(kernels::key_of(seed, "sampling"), index);
  return static_cast<double>(key.value >> 11) * 0x1p-53;
}

}  // namespace

std::int64_t pick_token(std::span<const double> logits, const Sampling& sampling,
                        std::uint64_t index) {
  for (const double logit : logits) {
    // A logit of minus infinity is allowed: that token is never drawn.
    if (std::isnan(logit) || logit == INFINITY) throw Error("the model's logits are not finite");
  }
  // The likeliest token comes first. Of equally likely tokens the smaller comes first.
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int64_t a, std::int64_t b) {
    const double of_a = logits[static_cast<std::size_t>(a)];
    const double of_b = logits[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  const auto size = static_cast<std::int64_t>(order.size());
  const std::int64_t kept = sampling.temperature == 0 ? 1
                            : sampling.top_k > 0      ? std::min(sampling.top_k, size)
                                                      : size;
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), likelier);
  if (kept == 1) return order[0];
  const double largest = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> sums;
  double sum = 0;
  for (std::int64_t i = 0; i < kept; ++i) {
    const double logit = logits[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
    sums.push_back(sum += std::exp((logit - largest) / sampling.temperature));
  }
  const double drawn = uniform(sampling.seed, index) * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end(), drawn);
  return order[static_cast<std::size_t>(std::min(found - sums.begin(), kept - 1))];
}

namespace {

/// The last row of logits, gathered on all ranks.
std::vector<double> last_row(const Mesh& mesh, const Transformer& model, const Tensor& logits,
                             std::int64_t vocabulary) {
  const Tensor last =
      tensor::download(logits.narrow(0, logits.size(0) - 1, 1).to(at::kDouble)).contiguous();
  // There is one row for each rank, which begins with that rank's part of the vocabulary.
  const std::int64_t all = model.frame().vocabulary;
  const comm::Communicator& comm = mesh.comm(model.logit_axes());
  const Tensor parts = tensor::all_gather(comm, last).wait();
  std::vector<double> result(static_cast<std::size_t>(all));
  for (int i = 0; i < comm.size(); ++i) {
    const grid::Coord coord =
        mesh.grid().coord_of(comm.group().members[static_cast<std::size_t>(i)]);
    const grid::Range range = grid::range_along(all, model.logit_axes(), mesh.grid(), coord);
    const double* from = parts.data_ptr<double>() + i * parts.size(1);
    std::copy(from, from + range.size(), result.begin() + range.begin);
  }
  result.resize(static_cast<std::size_t>(vocabulary));
  return result;
}

/// With SUMMA each row of ranks has a copy of the sample.
Tensor copies_of(const Mesh& mesh, std::span<const std::int64_t> tokens, std::int64_t copies) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const Tensor input = at::empty({copies, count}, at::kLong);
  for (std::int64_t i = 0; i < copies; ++i) {
    std::copy(tokens.begin(), tokens.end(), input.data_ptr<std::int64_t>() + i * count);
  }
  return tensor::upload(mesh, input);
}

void check(const Mesh& mesh, const Transformer& model, std::span<const std::int64_t> tokens,
           std::int64_t vocabulary) {
  FOURFOLD_CHECK(!tokens.empty() && vocabulary <= model.frame().vocabulary);
  FOURFOLD_CHECK(mesh.size({Axis::kData, Axis::kZ}) == 1, "one sample cannot be split");
}

}  // namespace

std::vector<double> next_logits(const Mesh& mesh, const Transformer& model,
                                std::span<const std::int64_t> tokens, std::int64_t vocabulary) {
  check(mesh, model, tokens, vocabulary);
  const at::NoGradGuard no_graph;
  const auto context = static_cast<std::size_t>(model.frame().context);
  const std::span<const std::int64_t> used = tokens.last(std::min(tokens.size(), context));
  const std::int64_t copies = mesh.size(model.loss_axes());
  const nn::Batch batch{.samples = copies, .context = static_cast<std::int64_t>(used.size())};
  tensor::InFlight in_flight(mesh);
  nn::Pass pass(in_flight);
  return last_row(mesh, model, model.logits(copies_of(mesh, used, copies), batch, pass),
                  vocabulary);
}

std::vector<double> Text::next_logits(std::int64_t vocabulary) {
  check(*mesh_, *model_, tokens_, vocabulary);
  const auto length = static_cast<std::int64_t>(tokens_.size());
  if (model_->has_positions() && length > model_->frame().context) {
    return model::next_logits(*mesh_, *model_, tokens_, vocabulary);
  }
  const std::int64_t known = cache_.length();
  FOURFOLD_CHECK(known < length, "no new token since the last logits");
  const std::span<const std::int64_t> fresh =
      std::span<const std::int64_t>(tokens_).subspan(static_cast<std::size_t>(known));
  const std::int64_t copies = mesh_->size(model_->loss_axes());
  const nn::Batch batch{.samples = copies, .context = length - known, .first_position = known};
  return last_row(*mesh_, *model_, model_->logits(copies_of(*mesh_, fresh, copies), batch, cache_),
                  vocabulary);
}

}  // namespace fourfold::model
