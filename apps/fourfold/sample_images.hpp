// fourfold sample for models that draw images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/draw.hpp"

#include "apps/fourfold/ranks.hpp"

namespace fourfold::app {

struct DrawOptions {
  RankOptions ranks;
  std::string folder;
  std::string out;  ///< a PNG file
  std::string json;
  model::Drawing drawing;
};

/// The file with the running mean of the weights, if the folder has one, since that gives better
/// samples than the last weights; else model.safetensors.
std::string_view weights_in(const std::string& folder);

/// Checks what one process can check, and draws on the ranks. Returns the exit status.
int sample_images(const DrawOptions& options, const model::UNetSpec& spec, char** argv);

}  // namespace fourfold::app
