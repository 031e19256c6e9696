// A folder that only appears when it is complete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold::data {

/// A new folder next to its final place, under a name of its own (*.part-*), so that several
/// processes may make the same folder. Unless it is committed, it is removed with its content.
class ScratchFolder {
 public:
  /// `place` is the final path of the folder; its parent folder must exist. Throws IoError.
  explicit ScratchFolder(std::string place);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Moves the folder to its place. Returns false when something exists there already; then this
  /// folder will be removed. Throws IoError.
  bool commit();

 private:
  std::string place_;
  std::string path_;  // empty once it is in its place
};

}  // namespace fourfold::data
