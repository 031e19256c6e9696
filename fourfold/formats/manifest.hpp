// What a checkpoint is made of: the manifest in its folder, which is written last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::formats {

struct Manifest {
  /// A file beside the manifest.
  struct File {
    std::string name = {};
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;  ///< XXH3 with 64 bits of all bytes

    bool operator==(const File&) const = default;
  };

  std::int64_t step = 0;         ///< that was done last
  std::int64_t samples = 0;      ///< that were trained on so far: the number of the next one
  std::int64_t train_units = 0;  ///< tokens or images of the data, so that other data is noticed
  std::string config = {};       ///< the run's configuration, as TOML
  std::vector<File> files = {};

  std::int64_t bytes() const;
  bool operator==(const Manifest&) const = default;
};

/// The name of the manifest's file.
inline constexpr std::string_view kManifestFile = "manifest.json";

/// The text of the file: JSON for people and programs, whose last member is the checksum of all
/// bytes before it.
std::string to_text(const Manifest& manifest);

/// Throws ConfigError that names `path` unless the text is that of a manifest, without any change.
Manifest parse_manifest(std::string_view text, const std::filesystem::path& path);

/// Reads the manifest of a checkpoint's folder. Throws ConfigError, or IoError when it cannot be
/// read.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace fourfold::formats
