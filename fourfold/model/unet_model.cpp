// The description of a U-Net.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/check.hpp"
#include "fourfold/model/unet.hpp"

namespace fourfold::model {

namespace {

const UNetSpec& checked(const UNetSpec& spec) {
  spec.check();
  return spec;
}

}  // namespace

UNetModel::UNetModel(const UNetSpec& spec) : spec_(checked(spec)), plan_(spec) {}

std::string UNetModel::sizes() const {
  return concat(spec_.channels, " channels times ", join(spec_.multipliers, ", "), ", ",
                spec_.heads, " heads, images of ", spec_.image, " × ", spec_.image, ", ", blocks(),
                " blocks");
}

std::vector<std::pair<std::string, std::string>> UNetModel::traits() const {
  const auto list = [](const std::vector<std::int64_t>& values) {
    return concat("[", join(values, ", "), "]");
  };
  return {{"kind", std::string(kind())},
          {"image", std::to_string(spec_.image)},
          {"colours", std::to_string(spec_.colours)},
          {"channels", std::to_string(spec_.channels)},
          {"multipliers", list(spec_.multipliers)},
          {"blocks", std::to_string(spec_.blocks)},
          {"attention", list(spec_.attention)},
          {"heads", std::to_string(spec_.heads)},
          {"groups", std::to_string(spec_.groups)},
          {"learn_sigma", spec_.learn_sigma ? "true" : "false"}};
}

ModelPtr UNetModel::with_blocks(std::int64_t) const {
  throw InvariantError("the blocks of a U-Net differ: there is none with another number of them");
}

std::string UNetModel::block_prefix(std::int64_t block) const {
  return plan_.blocks().at(static_cast<std::size_t>(block)).name + ".";
}

std::string UNetModel::misfit(const grid::Sizes& sizes, std::int64_t samples) const {
  if (sizes.pipe > blocks()) {
    return concat(blocks(), " blocks cannot be split over pipe=", sizes.pipe);
  }
  // Ranks have whole images, whatever the setting of activations.
  std::string reason = nn::batch_misfit(sizes, batch(samples), nn::Activations::kReplicated);
  if (reason.empty()) reason = UNetEntry::misfit(spec_, sizes);
  for (const UNetBlockSpec& block : plan_.blocks()) {
    if (reason.empty()) reason = UNetBlock::misfit(spec_, block, sizes);
  }
  return reason.empty() ? UNetExit::misfit(spec_, sizes) : reason;
}

std::unique_ptr<Part> UNetModel::make(const Mesh& mesh, std::int64_t samples,
                                      const Stage& stage) const {
  return std::make_unique<UNet>(mesh, spec_, samples, stage);
}

std::vector<Tensor> UNetModel::empty_data(std::int64_t samples, c10::Device device) const {
  return {at::empty({samples, spec_.pixels(), spec_.colours},
                    at::TensorOptions(spec_.execution.precision.master).device(device))};
}

}  // namespace fourfold::model
