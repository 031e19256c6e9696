// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/inspection.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include <ATen/ops/isfinite.h>

#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/first_text.hpp"
#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/tensor/transfer.hpp"
#include "fourfold/train/pass_scope.hpp"

namespace fourfold::train {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

bool in_backward() {
  return comm::PhaseScope::current() != schedule::Phase::kForward;
}

/// The first row that is not finite; the number of rows if all are finite.
std::int64_t first_bad_row(const Tensor& rows) {
  const Tensor finite = tensor::download(rows.isfinite().reshape({rows.size(0), -1}).all(1));
  const bool* begin = finite.data_ptr<bool>();
  const bool* end = begin + finite.numel();
  return std::find(begin, end, false) - begin;
}

/// What a rank tells the others, as they send it.
struct Found {
  std::array<std::int64_t, 4> bad;
  std::array<std::int64_t, 4> bad_rows;
  std::int64_t sample;
};

std::vector<Found> of_all_ranks(const Mesh& mesh, const Found& own) {
  const auto bytes = [](Found* found, std::size_t count) {
    constexpr std::int64_t kNumbers = sizeof(Found) / sizeof(std::int64_t);
    return comm::View{found, static_cast<std::int64_t>(count) * kNumbers, schedule::DType::kI64};
  };
  std::vector<Found> all(static_cast<std::size_t>(mesh.everyone().size()), own);
  if (all.size() == 1) return all;
  Found mine = own;
  mesh.everyone().all_gather(bytes(&mine, 1), bytes(all.data(), all.size())).wait();
  return all;
}

}  // namespace

Inspection::Inspection() {
  bad_.fill(kNever);
  bad_rows_.fill(kNever);
}

Inspection::Place Inspection::next_place() {
  const PassOfStep& pass = PassScope::current();
  const bool backward = in_backward();
  return {pass.micro_batch, backward ? 1 : 0, backward ? -pass.first_block : pass.first_block,
          count_++};
}

void Inspection::look(const char* what, std::string_view layer,
                      const tensor::variable_list& tensors) {
  const Place place = next_place();
  if (place > bad_) return;
  const bool finite = std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return !tensor.defined() || !tensor.is_floating_point() || tensor.isfinite().all().item<bool>();
  });
  if (finite) return;
  bad_ = place;
  bad_result_ = concat(what, layer);
}

void Inspection::results(std::string_view layer, const tensor::variable_list& results) {
  look("the output of ", layer, results);
}

void Inspection::gradients(std::string_view layer, const tensor::variable_list& gradients) {
  look("a gradient in ", layer, gradients);
}

void Inspection::rows(const Tensor& tensor, std::int64_t first_row, std::int64_t rows_per_sample) {
  const Place place = next_place();
  if (place > bad_rows_) return;
  const std::int64_t row = first_bad_row(tensor);
  if (row == tensor.size(0)) return;
  bad_rows_ = place;
  sample_ = (first_row + row) / rows_per_sample;
}

std::string Inspection::first_bad(const Mesh& mesh, std::int64_t samples_before) const {
  const std::vector<Found> all = of_all_ranks(mesh, {bad_, bad_rows_, sample_});
  const Found& first = *std::min_element(
      all.begin(), all.end(), [](const Found& a, const Found& b) { return a.bad < b.bad; });
  if (first.bad[0] == kNever) return "";
  std::vector<int> ranks;  // more than one where all of a group got it from one operation
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].bad == first.bad) ranks.push_back(static_cast<int>(rank));
  }
  // Other ranks of the group may have the rows of the sample.
  const Found& sampled =
      *std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return std::tie(a.bad_rows, a.sample) < std::tie(b.bad_rows, b.sample);
      });
  std::string text;
  if (mesh.world().rank() == ranks.front()) {
    text =
        concat(bad_result_, " on ", ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks), " on ",
               mesh.world().host(ranks.front()), ", in the ",
               first.bad[1] == 0 ? "forward" : "backward", " pass of micro-batch ", first.bad[0]);
    if (sampled.bad_rows[0] == first.bad[0]) {
      text += concat(", sample ", sampled.sample, " of the step (", samples_before + sampled.sample,
                     " of the run)");
    }
  }
  return checkpoint::first_text(mesh.everyone(), text);
}

}  // namespace fourfold::train
