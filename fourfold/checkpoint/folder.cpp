// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/formats/atomic_file.hpp"
#include "fourfold/formats/read_file.hpp"
#include "fourfold/formats/write_all.hpp"

namespace fourfold::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kRemoved = ".removed";

void sync(const fs::path& folder) {
  if (const int error = sync_to_disk(folder.string())) formats::throw_write_error(folder, error);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  return found;
}

}  // namespace

fs::path checkpoints_of(const fs::path& run) {
  return run / "checkpoints";
}

std::vector<Listed> list(const fs::path& checkpoints) {
  std::vector<Listed> found;
  for (const fs::path& path : entries(checkpoints)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kStep)) continue;
    const auto step = parse_int(std::string_view(name).substr(kStep.size()));
    if (step && *step > 0) found.push_back({*step, path});
  }
  std::sort(found.begin(), found.end(),
            [](const Listed& a, const Listed& b) { return a.step > b.step; });
  return found;
}

std::string step_name(std::int64_t step) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "step-%08lld", static_cast<long long>(step));
  return name.data();
}

fs::path partial(const fs::path& checkpoints, std::int64_t step) {
  return checkpoints / concat(step_name(step), kPartial);
}

std::string rank_file(int rank) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "rank-%05d.safetensors", rank);
  return name.data();
}

void commit(const fs::path& checkpoints, const formats::Manifest& manifest) {
  const fs::path written = partial(checkpoints, manifest.step);
  formats::AtomicFile file(written / formats::kManifestFile);
  const std::string text = to_text(manifest);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  sync(written);
  const fs::path complete = checkpoints / step_name(manifest.step);
  // A checkpoint of the same step that did not verify is in the way.
  std::error_code error;
  fs::remove_all(complete, error);
  if (std::rename(written.c_str(), complete.c_str()) != 0) {
    formats::throw_write_error(complete, errno);
  }
  sync(checkpoints);
  sync(fs::absolute(checkpoints).parent_path());  // it may be the first one
}

void remove_remains(const fs::path& checkpoints) {
  for (const fs::path& path : entries(checkpoints)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kStep) || !(name.ends_with(kPartial) || name.ends_with(kRemoved)))
      continue;
    std::error_code error;
    fs::remove_all(path, error);
  }
}

void prune(const fs::path& checkpoints, std::int64_t newest, std::int64_t keep,
           std::int64_t keep_every, const std::set<std::int64_t>& damaged) {
  std::int64_t newer = 0;
  for (const Listed& one : list(checkpoints)) {
    if (one.step > newest) continue;
    const bool good = !damaged.contains(one.step);
    const bool for_ever = good && keep_every > 0 && one.step % keep_every == 0;
    if (newer < keep || for_ever) {
      newer += good ? 1 : 0;
      continue;
    }
    // Under another name, so that nobody takes the rest of it for a checkpoint.
    const fs::path removed = concat(one.path.string(), kRemoved);
    if (std::rename(one.path.c_str(), removed.c_str()) != 0) continue;
    std::error_code error;
    fs::remove_all(removed, error);
  }
}

std::string damage(const fs::path& checkpoint, const formats::Manifest& manifest, std::size_t first,
                   std::size_t stride) {
  for (std::size_t i = first; i < manifest.files.size(); i += stride) {
    const formats::Manifest::File& file = manifest.files[i];
    const fs::path path = checkpoint / file.name;
    try {
      const std::int64_t size = formats::ReadFile(path).size();
      if (size != file.bytes) {
        return concat(path.string(), " has ", size, " bytes, and should have ", file.bytes);
      }
      if (formats::checksum_of_file(path) != file.checksum) {
        return concat(path.string(), " has changed since it was written: its checksum is wrong");
      }
    } catch (const IoError& error) {
      return error.what();
    }
  }
  return "";
}

}  // namespace fourfold::checkpoint
