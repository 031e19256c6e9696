// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/draw.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "fourfold/base/check.hpp"
#include "fourfold/model/denoise.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::model {

using grid::Axis;

namespace {

/// The samples of one pass after the other.
class Drawer {
 public:
  Drawer(const Mesh& mesh, const UNetSpec& spec, const PredictNoise& predict,
         const Drawing& drawing)
      : mesh_(&mesh),
        spec_(&spec),
        predict_(&predict),
        drawing_(drawing),
        noise_(spec.noise),
        times_(sampling_times(noise_.steps(), drawing.steps)),
        start_(kernels::key_of(drawing.seed, "drawing")),
        on_the_way_(kernels::key_of(drawing.seed, "drawing with noise")) {}

  /// This rank's images of a batch.
  Tensor draw(const nn::Batch& batch, const std::function<void()>& step_done) const {
    const std::int64_t first = nn::first_local_sample(*mesh_, batch);
    const auto options =
        at::TensorOptions(spec_->execution.precision.master).device(mesh_->device());
    const std::int64_t count = nn::local_samples(*mesh_, batch);
    Tensor images =
        draw_noise(at::empty({count, spec_->pixels(), spec_->colours}, options), first, start_);
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const std::int64_t t = times_[i];
      const std::int64_t next = i + 1 < times_.size() ? times_[i + 1] : -1;
      images = step(images, predict(images, t, batch), t, next, first);
      if (step_done) step_done();
    }
    return images;
  }

  std::int64_t steps() const { return static_cast<std::int64_t>(times_.size()); }

 private:
  /// What the network takes for the noise of the images.
  Tensor predict(const Tensor& images, std::int64_t t, const nn::Batch& batch) const {
    const Tensor times = at::full({images.size(0)}, static_cast<double>(t), images.options());
    const Tensor all = (*predict_)({images, times}, batch);
    return all.narrow(-1, 0, spec_->colours).to(images.scalar_type());
  }

  Tensor step(const Tensor& images, const Tensor& predicted, std::int64_t t, std::int64_t next,
              std::int64_t first) const {
    const double from = noise_.alpha_cumprod(t);
    const double to = noise_.alpha_cumprod(next);
    constexpr double kTensors = 12;
    mesh_->compute("a step of the sampler", tensor::loop_over(images, kTensors, kTensors));
    if (drawing_.sampler == Sampler::kDdim) return ddim_step(images, predicted, from, to);
    const Tensor drawn =
        draw_noise(images, first, kernels::key_of(on_the_way_, static_cast<std::uint64_t>(t)));
    return ddpm_step(images, predicted, from, to, drawn);
  }

  const Mesh* mesh_;
  const UNetSpec* spec_;
  const PredictNoise* predict_;
  Drawing drawing_;
  Noise noise_;
  std::vector<std::int64_t> times_;
  kernels::Key start_;
  kernels::Key on_the_way_;
};

}  // namespace

std::string drawing_misfit(const UNetSpec& spec, const Drawing& drawing) {
  if (drawing.images < 1) return concat("there are no ", drawing.images, " images");
  if (drawing.steps < 1 || drawing.steps > spec.noise.steps) {
    return concat("the model was trained with ", spec.noise.steps,
                  " steps of noise, so that images are drawn in 1 to ", spec.noise.steps,
                  " steps, not ", drawing.steps);
  }
  return {};
}

Tensor draw_images(const Mesh& mesh, const UNetSpec& spec, const PredictNoise& predict,
                   const Drawing& drawing, const std::function<void(double done)>& show) {
  const std::string misfit = drawing_misfit(spec, drawing);
  if (!misfit.empty()) throw ConfigError(misfit);
  const at::NoGradGuard no_graph;
  const Drawer drawer(mesh, spec, predict, drawing);
  const std::int64_t shares = mesh.size({Axis::kData, Axis::kZ});
  const auto rounded = [&](std::int64_t count) { return (count + shares - 1) / shares * shares; };
  const std::int64_t at_once =
      rounded(drawing.at_once > 0 ? std::min(drawing.at_once, drawing.images) : drawing.images);
  const std::int64_t passes = (drawing.images + at_once - 1) / at_once;
  // Of the ranks that have the same images, one counts in the sum over all ranks.
  const bool counts = mesh.index({Axis::kX, Axis::kY}) == 0 && mesh.index(Axis::kPipe) == 0;
  const Tensor all = at::zeros({drawing.images, spec.pixels(), spec.colours},
                               at::TensorOptions(at::kFloat).device(mesh.host()));
  std::int64_t done = 0;
  for (std::int64_t first = 0; first < drawing.images; first += at_once) {
    nn::Batch batch{.samples = std::min(at_once, rounded(drawing.images - first)),
                    .context = spec.pixels(),
                    .first_sample = first};
    const Tensor images = drawer.draw(batch, [&] {
      if (show) show(static_cast<double>(++done) / static_cast<double>(passes * drawer.steps()));
    });
    const std::int64_t begin = nn::first_local_sample(mesh, batch);
    const std::int64_t count = std::clamp<std::int64_t>(drawing.images - begin, 0, images.size(0));
    if (counts && count > 0) all.narrow(0, begin, count).copy_(images.narrow(0, 0, count));
  }
  if (mesh.everyone().size() > 1 && !mesh.dry())
    mesh.everyone().all_reduce(tensor::view(all)).wait();
  return all;
}

Tensor draw_images(const Mesh& mesh, const UNet& net, const Drawing& drawing,
                   const std::function<void(double done)>& show) {
  FOURFOLD_CHECK(net.stage().first && net.stage().last, "drawing with a part of the model");
  const auto predict = [&](const UNet::Noised& noised, const nn::Batch& batch) {
    tensor::InFlight in_flight(mesh);
    nn::Pass pass(in_flight);
    return net.predict({}, noised, batch, pass).front();
  };
  return draw_images(mesh, net.spec(), predict, drawing, show);
}

}  // namespace fourfold::model
