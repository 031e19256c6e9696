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

const model::UNet* drawing_model(const model::Part& part) {
  return dynamic_cast<const model::UNet*>(&part);
}

/// Predictions go through all stages of a pipeline, and from the last one to all others, which need
/// them for the next step of the sampler.
Tensor predict(const Mesh& mesh, Trainer& trainer, const model::UNet::Noised& noised,
               const nn::Batch& batch) {
  const model::UNetSpec& spec = drawing_model(trainer.stages()[0])->spec();
  Tensor prediction = at::empty({nn::local_samples(mesh, batch), spec.pixels(), spec.outputs()},
                                noised.images.options().dtype(spec.execution.precision.compute));
  trainer.run_forward(batch, 1,
                      [&](const model::Part& part, const std::vector<Tensor>& hidden, std::int64_t,
                          nn::Pass& pass) {
                        const model::UNet& net = *drawing_model(part);
                        std::vector<Tensor> outputs = net.predict(hidden, noised, batch, pass);
                        if (part.stage().last) prediction = outputs[0];
                        return outputs;
                      });
  const int places = mesh.size(grid::Axis::kPipe);
  if (places > 1) {
    mesh.comm(grid::Axis::kPipe).broadcast(tensor::view(prediction), places - 1).wait();
  }
  return prediction;
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
  return drawing_model(trainer.stages()[0]) != nullptr;
}

bool fits_picture(const Trainer& trainer) {
  const model::UNet* net = drawing_model(trainer.stages()[0]);
  FOURFOLD_CHECK(net != nullptr, "this model draws no images");
  const model::UNetSpec& spec = net->spec();
  return formats::fits_png(
      data::sheet_shape(kRows * kColumns, spec.image, static_cast<int>(spec.colours), kColumns));
}

formats::Picture draw_picture(const Mesh& mesh, Trainer& trainer, std::uint64_t seed) {
  const model::UNet* net = drawing_model(trainer.stages()[0]);
  FOURFOLD_CHECK(net != nullptr, "this model draws no images");
  const model::Drawing drawing{.images = kRows * kColumns,
                               .steps = std::min(kSteps, net->spec().noise.steps),
                               .seed = seed,
                               .at_once = trainer.recipe().micro_batch};
  Tensor images;
  const auto draw = [&] {
    images = model::draw_images(
        mesh, net->spec(),
        [&](const model::UNet::Noised& noised, const nn::Batch& batch) {
          return predict(mesh, trainer, noised, batch);
        },
        drawing);
  };
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
