// Trains a small GPT on ranks that it starts itself. Once the model is made, one of them may take
// only a little more memory.
//   limited_program [--ranks N] R
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/run.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/launcher.hpp"
#include "fourfold/train/device.hpp"

#include "tests/train/small_training.hpp"

namespace {

using namespace fourfold;

void report(const std::string& line) {
  std::fprintf(stderr, "limited_program: %s\n", line.c_str());
}

void train_limited(comm::World& world, int limited) {
  tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  const train::Recipe recipe = test::small_recipe(true, 3);
  const tensor::Mesh mesh(world, grid::Grid({.x = 2, .data = world.size() / 2}), recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  config::DeviceConfig device;
  if (world.rank() == limited) {
    constexpr double kGib = 1 << 30;
    device.memory_gib = 1.1 * static_cast<double>(meter.now().total().value()) / kGib;
  }
  const train::Device limit(world, device, meter);
  for (std::int64_t number = 1; number <= 3; ++number) trainer.step(number, test::small_samples());
  trainer.finish();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() > 2 && arguments[0] == "--ranks") {
      const auto ranks = static_cast<int>(parse_int(arguments[1]).value_or(0));
      return launch::run({ranks, {launch::this_program(), arguments[2]}, report});
    }
    launch::ensure_library_variables(argv);
  } catch (const Error& error) {
    report(error.what());
    return error.exit_status();
  }
  const auto limited = static_cast<int>(parse_int(arguments.at(0)).value_or(-1));
  return comm::mpi::run([&](comm::World& world) { train_limited(world, limited); }, report);
}
