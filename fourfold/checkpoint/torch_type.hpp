// The precision of weights as config.json names it ("torch_dtype").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/parameter.hpp"

namespace fourfold::checkpoint {

std::string torch_type(at::ScalarType type);
nn::Precision precision_of(const std::string& torch_type);

}  // namespace fourfold::checkpoint
