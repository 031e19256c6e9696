// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/pictures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "fourfold/base/check.hpp"
#include "fourfold/data/contact_sheet.hpp"
#include "fourfold/model/draw.hpp"

namespace fourfold::train {

namespace {

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kColumns = 8;
constexpr std::int64_t kSteps = 20;

const model::UNet* drawing_model(const Trainer& trainer) {
  return trainer.stages().is_whole() ? dynamic_cast<const model::UNet*>(&trainer.model()) : nullptr;
}

}  // namespace

formats::Picture sheet_of(const Tensor& images, std::int64_t columns) {
  const Tensor all = images.contiguous();
  FOURFOLD_CHECK(all.dim() == 3 && all.scalar_type() == at::kFloat);
  const auto size = std::llround(std::sqrt(static_cast<double>(all.size(1))));
  return data::contact_sheet({all.data_ptr<float>(), static_cast<std::size_t>(all.numel())}, size,
                             static_cast<int>(all.size(2)), columns);
}

bool can_draw(const Trainer& trainer) {
  return drawing_model(trainer) != nullptr;
}

formats::Picture draw_picture(const Mesh& mesh, Trainer& trainer, std::uint64_t seed) {
  const model::UNet* net = drawing_model(trainer);
  FOURFOLD_CHECK(net != nullptr, "this model draws no images");
  const model::Drawing drawing{.images = kRows * kColumns,
                               .steps = std::min(kSteps, net->spec().noise.steps),
                               .seed = seed,
                               .at_once = trainer.recipe().micro_batch};
  Tensor images;
  const auto draw = [&] { images = model::draw_images(mesh, *net, drawing); };
  if (trainer.recipe().optimizer.mean_decay > 0) {
    trainer.with_mean_values(draw);
  } else {
    draw();
  }
  return sheet_of(images, kColumns);
}

std::string picture_name(std::int64_t step) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "samples-%06lld.png", static_cast<long long>(step));
  return name.data();
}

}  // namespace fourfold::train
