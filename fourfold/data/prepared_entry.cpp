// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/prepared_entry.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/data/mix.hpp"
#include "fourfold/data/token_file.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

constexpr const char* kDescription = "/description.json";

/// A digest of all files of the tokenizer. They are small, and a changed file would go unnoticed.
std::string folder_digest(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  Digest digest;
  for (const std::string& file : files) {
    digest.add(std::filesystem::path(file).filename().string());
    digest.add(read_whole(file));
  }
  return digest.text();
}

/// Throws what the parts throw, or exceptions of json or the file system.
std::optional<Prepared> load(const std::string& folder) {
  const auto json = nlohmann::json::parse(read_whole(folder + kDescription));
  const auto number = [&](const char* name) { return json.at(name).get<std::int64_t>(); };
  Prepared prepared;
  prepared.train = folder + "/" + kTrainFolder;
  prepared.tokenizer = folder + "/" + kTokenizerFolder;
  prepared.vocabulary = number("vocabulary");
  prepared.train_tokens = number("train_tokens");
  prepared.validation_tokens = number("validation_tokens");
  prepared.bytes = number("bytes");
  prepared.files_used = number("files_used");
  prepared.files_skipped = number("files_skipped");
  if (folder_digest(prepared.tokenizer) != json.at("tokenizer_digest")) return std::nullopt;
  if (load_tokenizer(prepared.tokenizer)->vocabulary() != prepared.vocabulary) return std::nullopt;
  if (Tokens(prepared.train).size() != prepared.train_tokens) return std::nullopt;
  if (prepared.validation_tokens > 0) {
    prepared.validation = folder + "/" + kValidationFolder;
    if (Tokens(prepared.validation).size() != prepared.validation_tokens) return std::nullopt;
  }
  return prepared;
}

}  // namespace

void describe_entry(const Prepared& prepared, const std::string& folder) {
  const nlohmann::ordered_json json = {
      {"vocabulary", prepared.vocabulary},
      {"train_tokens", prepared.train_tokens},
      {"validation_tokens", prepared.validation_tokens},
      {"bytes", prepared.bytes},
      {"files_used", prepared.files_used},
      {"files_skipped", prepared.files_skipped},
      {"tokenizer_digest", folder_digest(folder + "/" + kTokenizerFolder)}};
  write_text(folder + kDescription, json.dump(2) + "\n");
}

std::optional<Prepared> load_entry(const std::string& folder) {
  if (!std::filesystem::exists(folder + kDescription)) return std::nullopt;
  // If anything is wrong with an entry, it is made again from the text.
  try {
    return load(folder);
  } catch (const Error&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const std::filesystem::filesystem_error&) {
    return std::nullopt;
  }
}

}  // namespace fourfold::data
