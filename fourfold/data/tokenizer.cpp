// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer.hpp"

#include <filesystem>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/byte_tokenizer.hpp"
#include "fourfold/data/gpt2_files.hpp"
#include "fourfold/data/gpt2_tokenizer.hpp"
#include "fourfold/data/mix.hpp"
#include "fourfold/data/sentencepiece_tokenizer.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

/// The largest size of a tokenizer file.
constexpr std::int64_t kLargestFile = std::int64_t{128} << 20;

bool has_file(const std::string& folder, const char* name) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + name, error);
}

/// The names of the tokenizer's files in the folder; empty if there are none.
std::vector<const char*> files_in(const std::string& folder) {
  if (has_file(folder, kSentencePieceFile)) return {kSentencePieceFile};
  if (has_file(folder, "vocab.json") && has_file(folder, "merges.txt")) {
    return {"vocab.json", "merges.txt"};
  }
  if (has_file(folder, "tokenizer.json")) return {"tokenizer.json"};
  return {};
}

std::unique_ptr<Tokenizer> make_gpt2(Gpt2Files files) {
  if (is_byte_vocabulary(files)) return make_byte_tokenizer();
  return std::make_unique<Gpt2Tokenizer>(std::move(files));
}

}  // namespace

bool has_tokenizer(const std::string& folder) {
  return !files_in(folder).empty();
}

std::string tokenizer_digest(const std::string& folder) {
  Digest digest;
  for (const char* name : files_in(folder)) {
    digest.add(name);
    digest.add(read_whole(folder + "/" + name, kLargestFile));
  }
  return digest.text();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder) {
  const std::vector<const char*> files = files_in(folder);
  if (files.size() == 2) return make_gpt2(read_vocabulary_and_merges(folder));
  if (files.size() == 1) {
    const bool sentencepiece = std::string_view(files[0]) == kSentencePieceFile;
    return sentencepiece ? load_sentencepiece(folder) : make_gpt2(read_tokenizer_json(folder));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError(concat("the tokenizer's folder ", folder, " does not exist"));
  }
  throw ConfigError(concat("there is no tokenizer in ", folder, ": neither ", kSentencePieceFile,
                           " nor vocab.json with merges.txt nor tokenizer.json"));
}

}  // namespace fourfold::data
