// The images of an IDX file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fourfold/data/image_set.hpp"

namespace fourfold::data {

/// `size` and `channels` as for `open_images`. Throws ConfigError.
std::shared_ptr<const ImageSet> open_idx_images(const std::string& path, std::int64_t size,
                                                int channels);

}  // namespace fourfold::data
