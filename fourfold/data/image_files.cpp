// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/image_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::data {

namespace {

namespace fs = std::filesystem;

/// Part of the names of all files of images in the format of MNIST. Labels have idx1 instead.
constexpr std::string_view kIdxImages = "idx3-ubyte";
constexpr std::string_view kTrainingImages = "train-images";
constexpr std::string_view kValidationImages = "t10k-images";

[[noreturn]] void refuse_images(const std::string& path, const std::string& why) {
  throw ConfigError(concat(path, " cannot be read: ", why, "; check the path"));
}

bool hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

bool is_png(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png";
}

bool is_file(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_regular_file(error);
}

/// The names of the files of IDX images in the folder, sorted. If a file is there unpacked and
/// packed, the unpacked one is used.
std::vector<std::string> idx_names(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const bool idx = name.find(kIdxImages) != std::string::npos;
    if (idx && !hidden(name) && is_file(*entries)) names.push_back(name);
  }
  if (error) refuse_images(folder, error.message());
  std::sort(names.begin(), names.end());
  const std::vector<std::string> all = names;
  std::erase_if(names, [&](const std::string& name) {
    return name.ends_with(".gz") &&
           std::binary_search(all.begin(), all.end(), name.substr(0, name.size() - 3));
  });
  return names;
}

/// The only name that begins like this, or nothing.
std::string only_one(const std::string& folder, const std::vector<std::string>& names,
                     std::string_view beginning) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.starts_with(beginning)) found.push_back(name);
  }
  if (found.size() > 1) {
    throw ConfigError(concat(folder, " has several files of images: ", join(found, ", "),
                             "; give the path of one of them"));
  }
  return found.empty() ? "" : found[0];
}

ImageFiles choose_idx(const std::string& folder, const std::vector<std::string>& names) {
  const fs::path root(folder);
  const std::string training = only_one(folder, names, kTrainingImages);
  if (training.empty()) return {(root / only_one(folder, names, "")).string(), "", {}};
  const std::string validation = only_one(folder, names, kValidationImages);
  return {(root / training).string(), validation.empty() ? "" : (root / validation).string(), {}};
}

std::vector<std::string> list_pngs(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  fs::recursive_directory_iterator entries(folder, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (hidden(entries->path())) {
      entries.disable_recursion_pending();
    } else if (is_png(entries->path()) && is_file(*entries)) {
      paths.push_back(entries->path().string());
    }
  }
  if (error) refuse_images(folder, error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

ImageFiles find_images(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) refuse_images(path, error.message());
  if (!fs::is_directory(status)) return {path, "", {}};
  const std::vector<std::string> names = idx_names(path);
  if (!names.empty()) return choose_idx(path, names);
  std::vector<std::string> pngs = list_pngs(path);
  if (pngs.empty()) {
    throw ConfigError(concat("there are no images in the folder ", path,
                             ": neither *.png in it or below nor *", kIdxImages, "* in it"));
  }
  return {"", "", std::move(pngs)};
}

}  // namespace fourfold::data
