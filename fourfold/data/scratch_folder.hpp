// A folder that appears all at once, when it is complete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold::data {

/// A new folder beside the place where it belongs, under a name of its own (*.part-*), so that
/// several processes may make the same one. Unless committed, it is removed with its content.
class ScratchFolder {
 public:
  /// `place` is where the folder belongs; the folder around it must exist. Throws IoError.
  explicit ScratchFolder(std::string place);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Puts the folder in its place. False when something is there already: then this one stays what
  /// it is, to be removed. Throws IoError.
  bool commit();

 private:
  std::string place_;
  std::string path_;  // empty once in place
};

}  // namespace fourfold::data
