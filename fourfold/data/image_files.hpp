// The files that hold the images of a set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fourfold::data {

/// Either `idx` is set, or there is at least one of `pngs`.
struct ImageFiles {
  std::string idx;                ///< an IDX file
  std::string validation_idx;     ///< beside `idx`, one with images for validation; or empty
  std::vector<std::string> pngs;  ///< by path
};

/// Finds the images of a path that a user gives: the rules are those of `open_images`. Files and
/// folders whose names begin with a dot, and links to folders, are passed over. Throws ConfigError
/// when nothing is found or it is not clear which file is meant.
ImageFiles find_images(const std::string& path);

}  // namespace fourfold::data
