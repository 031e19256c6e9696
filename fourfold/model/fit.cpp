// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/fit.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::model {

using grid::Axis;

grid::Sizes sizes_of(const Mesh& mesh) {
  return {.x = mesh.size(Axis::kX),
          .y = mesh.size(Axis::kY),
          .z = mesh.size(Axis::kZ),
          .data = mesh.size(Axis::kData),
          .pipe = mesh.size(Axis::kPipe)};
}

std::vector<grid::Sizes> fitting_grids(const Model& model, int ranks, std::int64_t samples) {
  std::vector<grid::Sizes> found;
  for (const grid::Sizes& sizes :
       grid::factorisations(ranks, {Axis::kX, Axis::kY, Axis::kZ, Axis::kData})) {
    if (model.misfit(sizes, samples).empty()) found.push_back(sizes);
  }
  return found;
}

std::string grids_that_work(const std::vector<grid::Sizes>& candidates,
                            const std::function<bool(const grid::Sizes&)>& works) {
  constexpr std::size_t kNamed = 6;
  std::vector<std::string> names;
  for (const grid::Sizes& sizes : candidates) {
    if (!works(sizes)) continue;
    if (names.size() == kNamed) return join(names, " or ") + " and others";
    names.push_back(grid::to_string(sizes));
  }
  return names.empty() ? "none; change the ranks, the batch or the heads" : join(names, " or ");
}

void check_fits(const Model& model, const Mesh& mesh, std::int64_t samples) {
  const std::string reason = model.misfit(sizes_of(mesh), samples);
  if (reason.empty()) return;
  grid::Axes axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData};
  if (mesh.size(Axis::kPipe) > 1) axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData, Axis::kPipe};
  const auto works = [&](const grid::Sizes& sizes) { return model.misfit(sizes, samples).empty(); };
  throw ConfigError(
      concat(reason, "; with as many ranks these grids work: ",
             grids_that_work(grid::factorisations(mesh.grid().ranks(), axes), works)));
}

}  // namespace fourfold::model
