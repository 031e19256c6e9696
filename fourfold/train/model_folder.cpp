// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/model_folder.hpp"

#include <filesystem>

#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/generation_config.hpp"
#include "fourfold/checkpoint/loader.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/config/read.hpp"
#include "fourfold/train/resumed_config.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::train {

void save_model(const Mesh& mesh, Trainer& trainer, const std::string& folder) {
  const auto save = [&](std::string_view file) {
    checkpoint::save_weights(mesh, trainer.stages(), folder, checkpoint::kSaveWindow, file);
  };
  save(checkpoint::kWeightsFile);
  if (trainer.recipe().optimizer.mean_decay > 0) {
    trainer.with_mean_values([&] { save(checkpoint::kMeanFile); });
  }
}

void save_description(const std::string& folder, const model::Model& model, const Dataset& data) {
  const std::int64_t end = data.tokenizer ? data.tokenizer->end_of_text() : -1;
  // In training a text follows the end of another one where no token begins it.
  std::int64_t begin = data.tokenizer ? data.tokenizer->begin_of_text() : -1;
  if (begin < 0) begin = end;
  write_text(folder + "/config.json", checkpoint::model_config(model, begin, end));
  if (model.kind() == "unet") return;
  write_text(folder + "/generation_config.json", checkpoint::generation_config(begin, end));
  if (data.tokenizer) data.tokenizer->save(folder);
}

void export_model(comm::World& world, const std::string& run, std::int64_t step,
                  const std::string& out, const std::function<void(const std::string&)>& say) {
  config::Config config = config::read({.path = run + "/config.toml"});
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  const std::optional<checkpoint::Good> good =
      checkpoint::newest_good(world, everyone, checkpoint::checkpoints_of(run), say, step);
  if (!good || (step > 0 && good->manifest.step != step)) {
    throw ConfigError(concat(run, " has no good checkpoint",
                             step > 0 ? concat(" of step ", step) : "",
                             ": fourfold checkpoint list ", run, " shows what there is"));
  }
  forget_other_grid(config, 1);
  config.parallel.given = true;  // one rank
  config::Config of_data = config_for_data(config, run);
  const Dataset data = open_dataset(of_data, [](const std::string&) {});
  config.model.vocab = of_data.model.vocab;
  const Recipe recipe = recipe_of(config);
  const Mesh mesh(world, grid::Grid(), recipe.overlap);
  Trainer trainer(mesh, recipe);
  checkpoint::load_state(*good, checkpoint::blocks_of(trainer.state(optim::StateOf::kOwn)));
  trainer.restored();
  std::filesystem::create_directories(out);
  save_model(mesh, trainer, out);
  save_description(out, *recipe.model, data);
  say(concat("the model after step ", good->manifest.step, " is in ", out));
}

}  // namespace fourfold::train
