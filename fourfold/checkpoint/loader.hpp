// Finds the newest checkpoint that is as it was written, and fills the state of a training from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "fourfold/checkpoint/folder.hpp"
#include "fourfold/checkpoint/state.hpp"

namespace fourfold::checkpoint {

/// A checkpoint whose files are all as they were written.
struct Good {
  std::filesystem::path path;
  formats::Manifest manifest;
  std::set<std::int64_t> damaged;  ///< the steps of later ones, which do not verify
};

/// The newest one of a run, or the newest until `step`, if that is not 0. The ranks share the
/// reading of the files. What does not verify is named by a call of `say` on the first rank, and
/// skipped. Nothing if there is no checkpoint; throws ConfigError if there are some and none
/// verifies, since a run that then began again would overwrite what may be repaired. Collective.
std::optional<Good> newest_good(comm::World& world, const comm::Communicator& everyone,
                                const std::filesystem::path& checkpoints,
                                const std::function<void(const std::string&)>& say,
                                std::int64_t step = 0);

/// What a rank has read.
struct Loaded {
  Bytes needed;  ///< the size of its blocks
  Bytes read;    ///< from the files, with their headers, as it was counted where files are read
};

/// Fills the blocks with the values that any ranks of any grid have written. Only what the blocks
/// need is read. Throws ConfigError that names what is missing, IoError when a file cannot be read.
Loaded load_state(const Good& checkpoint, const std::vector<StateBlock>& blocks);

}  // namespace fourfold::checkpoint
