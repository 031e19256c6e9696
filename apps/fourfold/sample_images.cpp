// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/sample_images.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/data/contact_sheet.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/pictures.hpp"

#include "apps/fourfold/console.hpp"

namespace fourfold::app {

namespace {

using Clock = std::chrono::steady_clock;

/// So many images of a pass on each rank keep the memory small, and the cores busy.
constexpr std::int64_t kImagesOfRank = 32;

std::int64_t columns_for(std::int64_t images) {
  return static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(images))));
}

void check(const DrawOptions& options, const model::UNetSpec& spec) {
  if (options.out.empty()) {
    throw ConfigError(concat("the model in ", options.folder,
                             " draws images: name a file for them, as in --out grid.png"));
  }
  const std::int64_t images = options.drawing.images;
  if (images < 1) throw ConfigError("--samples must be at least 1");
  if (images > formats::kMostPixels ||
      !formats::fits_png(data::sheet_shape(images, spec.image, static_cast<int>(spec.colours),
                                           columns_for(images)))) {
    throw ConfigError(concat("--samples ", images, ": a picture of so many images of ", spec.image,
                             " x ", spec.image, " pixels is too large for a PNG file; ",
                             "draw fewer at a time, each time with another --seed"));
  }
  const std::string misfit = model::drawing_misfit(spec, options.drawing);
  if (!misfit.empty()) throw ConfigError("--steps: " + misfit);
  check_writable("--out", options.out);
  if (!options.json.empty()) check_writable("--json", options.json);
}

void draw(comm::World& world, const DrawOptions& options) {
  const train::Console console = make_console();
  const bool first = world.rank() == 0;
  const model::ModelPtr model = checkpoint::read_model_config(options.folder);
  const auto& spec = dynamic_cast<const model::UNetModel&>(*model).spec();
  // Images do not depend on each other: ranks that share nothing draw fastest.
  const tensor::Mesh mesh(world, grid::Grid({.data = world.size()}));
  const model::UNet net(mesh, spec, world.size());
  {
    const comm::LongWork long_work = world.long_work("loading the weights");
    checkpoint::load_weights(*model, net, options.folder, weights_in(options.folder));
  }
  model::Drawing drawing = options.drawing;
  drawing.at_once = kImagesOfRank * world.size();
  const auto begin = Clock::now();
  // Ranks meet only when all images are drawn, and one of them may be much slower than another.
  const comm::LongWork long_work = world.long_work("drawing images");
  const at::Tensor images = model::draw_images(mesh, net, drawing, [&](double done) {
    if (first) console.show(concat("drawing: ", static_cast<int>(100 * done), "%"));
  });
  if (!first) return;
  const Seconds seconds(std::chrono::duration<double>(Clock::now() - begin).count());
  formats::write_png(options.out, train::sheet_of(images, columns_for(drawing.images)));
  console.say(concat(drawing.images, drawing.images == 1 ? " image in " : " images in ",
                     drawing.steps, " steps of ",
                     drawing.sampler == model::Sampler::kDdim ? "DDIM" : "DDPM", " from ",
                     weights_in(options.folder), " in ", seconds, ": ", options.out));
  if (options.json.empty()) return;
  const nlohmann::json json = {
      {"out", options.out},         {"samples", drawing.images},
      {"steps", drawing.steps},     {"weights", weights_in(options.folder)},
      {"seconds", seconds.value()}, {"ranks", world.size()}};
  write_text(options.json, json.dump(2) + "\n");
}

}  // namespace

std::string_view weights_in(const std::string& folder) {
  std::error_code error;
  const auto mean = std::filesystem::path(folder) / checkpoint::kMeanFile;
  return std::filesystem::exists(mean, error) ? checkpoint::kMeanFile : checkpoint::kWeightsFile;
}

int sample_images(const DrawOptions& options, const model::UNetSpec& spec, char** argv) {
  check(options, spec);
  if (options.ranks.ranks) announce_terminal();
  return run_on_ranks(options.ranks, argv, [&](comm::World& world) { draw(world, options); });
}

}  // namespace fourfold::app
