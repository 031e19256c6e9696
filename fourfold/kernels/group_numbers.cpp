// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/group_numbers.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_lines(const Tensor& lines) {
  FOURFOLD_CHECK(lines.is_contiguous() &&
                 (lines.scalar_type() == at::kDouble || lines.scalar_type() == at::kFloat));
}

}  // namespace

void segment_moments(const GroupMap& map, const std::vector<Tensor>& means,
                     const std::vector<Tensor>& squares, std::int64_t pixels, Tensor& lines) {
  check_lines(lines);
  if (lines.is_meta()) return;
  functions_of(lines).segment_moments(map, means, squares, pixels, lines);
}

void group_moments(const GroupMap& map, const Tensor& lines, std::int64_t pixels, double epsilon,
                   std::vector<Tensor>& means, std::vector<Tensor>& inverses) {
  check_lines(lines);
  if (lines.is_meta()) return;
  functions_of(lines).group_moments(map, lines, pixels, epsilon, means, inverses);
}

void segment_sums(const GroupMap& map, const std::vector<Tensor>& first,
                  const std::vector<Tensor>& second, Tensor& lines) {
  check_lines(lines);
  if (lines.is_meta()) return;
  functions_of(lines).segment_sums(map, first, second, lines);
}

void group_means(const GroupMap& map, const Tensor& lines, std::int64_t pixels,
                 std::vector<Tensor>& first, std::vector<Tensor>& second) {
  check_lines(lines);
  if (lines.is_meta()) return;
  functions_of(lines).group_means(map, lines, pixels, first, second);
}

}  // namespace fourfold::kernels
