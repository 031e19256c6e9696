// What tests of weights share: a folder, a small model, and its files as one rank writes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <unistd.h>

#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/model/gpt.hpp"

namespace fourfold::test {

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    path_ =
        std::filesystem::temp_directory_path() / concat("fourfold-weights-", getpid(), "-", ++made);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  static inline int made = 0;
  std::filesystem::path path_;
};

inline model::GptSpec small_spec(nn::Precision precision = nn::Precision::float64()) {
  model::GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 24;
  spec.heads = 4;
  spec.layers = 2;
  spec.context = 8;
  spec.execution.precision = precision;
  return spec;
}

inline model::ModelPtr gpt_model(const model::GptSpec& spec) {
  return std::make_shared<model::GptModel>(spec);
}

/// Saves a model of `spec` as one rank has it.
inline void save_alone(const model::GptSpec& spec, const std::string& folder) {
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  checkpoint::save_weights(mesh, model::Stages(mesh, gpt_model(spec), 1), folder);
}

}  // namespace fourfold::test
