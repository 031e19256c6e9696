// The checkpoints of a run: folders with a manifest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "fourfold/formats/manifest.hpp"

namespace fourfold::checkpoint {

/// The folder of the checkpoints in a run's folder.
std::filesystem::path checkpoints_of(const std::filesystem::path& run);

/// A checkpoint under its final name. It is complete unless a disk or a person has changed it.
struct Listed {
  std::int64_t step = 0;
  std::filesystem::path path;
};
/// All of them, the newest first; none if there is no such folder.
std::vector<Listed> list(const std::filesystem::path& checkpoints);

/// "step-00000100".
std::string step_name(std::int64_t step);
/// Where the checkpoint is written until it is complete.
std::filesystem::path partial(const std::filesystem::path& checkpoints, std::int64_t step);
/// "rank-00003.safetensors".
std::string rank_file(int rank);

/// Writes the manifest, and gives the folder of `partial` its final name. Throws IoError.
void commit(const std::filesystem::path& checkpoints, const formats::Manifest& manifest);

/// Removes what an earlier process has not completed, or not removed completely.
void remove_remains(const std::filesystem::path& checkpoints);

/// Removes all but the `keep` newest and those whose step is a multiple of `keep_every` (0: none).
/// `newest` is the step of the newest one that counts: the run went on from before later ones,
/// which are left alone. Those of the steps `damaged` stand for no other one.
void prune(const std::filesystem::path& checkpoints, std::int64_t newest, std::int64_t keep,
           std::int64_t keep_every, const std::set<std::int64_t>& damaged = {});

/// What is wrong with the size or the checksum of the files number `first`, `first` + `stride`, ...
/// of a checkpoint; empty if nothing is.
std::string damage(const std::filesystem::path& checkpoint, const formats::Manifest& manifest,
                   std::size_t first = 0, std::size_t stride = 1);

}  // namespace fourfold::checkpoint
