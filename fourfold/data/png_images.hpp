// Images that are PNG files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fourfold/data/image_set.hpp"

namespace fourfold::data {

/// At least one path; `size` and `channels` as for `open_images`. Looks at the first bytes of all
/// files, so that a file of another format or a picture that is too small is refused here, and not
/// in the middle of a training. Each file is read when its image is asked for. Throws ConfigError.
std::shared_ptr<const ImageSet> open_png_images(std::vector<std::string> paths, std::int64_t size,
                                                int channels);

}  // namespace fourfold::data
