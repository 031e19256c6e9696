// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer.hpp"

#include <filesystem>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/bpe_tokenizer.hpp"
#include "fourfold/data/byte_tokenizer.hpp"
#include "fourfold/data/gpt2_files.hpp"
#include "fourfold/data/mix.hpp"
#include "fourfold/data/sentencepiece_tokenizer.hpp"
#include "fourfold/data/tokenizer_json.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

bool has_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// The files of a tokenizer: the paths of those that make it, in the order of tokenizer.hpp.
struct Files {
  enum class Kind { kNone, kSentencePiece, kGpt2, kTokenizerJson };

  Kind kind = Kind::kNone;
  std::string folder;
  std::vector<std::string> names;
};

Files files_at(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    const std::filesystem::path file = path;
    const std::string folder = file.parent_path().empty() ? "." : file.parent_path().string();
    return {Files::Kind::kTokenizerJson, folder, {file.filename().string()}};
  }
  const auto has = [&](const char* name) { return has_file(path + "/" + name); };
  if (has(kSentencePieceFile)) return {Files::Kind::kSentencePiece, path, {kSentencePieceFile}};
  const Files json{Files::Kind::kTokenizerJson, path, {kTokenizerJson}};
  if (!has("vocab.json") || !has("merges.txt")) return has(kTokenizerJson) ? json : Files{};
  // Beside GPT-2's files tokenizer.json also knows added tokens and other words than GPT-2's.
  if (has(kTokenizerJson) && may_be_byte_level(path + "/" + kTokenizerJson)) return json;
  return {Files::Kind::kGpt2, path, {"vocab.json", "merges.txt"}};
}

std::unique_ptr<Tokenizer> load_gpt2(const std::string& folder) {
  BpeModel model = read_vocabulary_and_merges(folder);
  if (is_byte_vocabulary(model)) return make_byte_tokenizer();
  return std::make_unique<BpeTokenizer>(std::move(model));
}

}  // namespace

bool has_tokenizer(const std::string& path) {
  return !path.empty() && files_at(path).kind != Files::Kind::kNone;
}

std::string tokenizer_digest(const std::string& path) {
  Files files = files_at(path);
  // They may name the token between documents.
  for (const char* name : {kTokenizerConfig, kSpecialTokens}) {
    if (has_file(files.folder + "/" + name)) files.names.emplace_back(name);
  }
  Digest digest;
  for (const std::string& name : files.names) {
    digest.add(name);
    digest.add(read_whole(files.folder + "/" + name));
  }
  return digest.text();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  const Files files = files_at(path);
  switch (files.kind) {
    case Files::Kind::kSentencePiece:
      return load_sentencepiece(path);
    case Files::Kind::kGpt2:
      return load_gpt2(path);
    case Files::Kind::kTokenizerJson:
      return load_tokenizer_json(files.folder + "/" + files.names[0]);
    case Files::Kind::kNone:
      break;
  }
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw ConfigError(concat("the tokenizer's folder ", path, " does not exist"));
  }
  throw ConfigError(concat("there is no tokenizer in ", path, ": neither ", kSentencePieceFile,
                           " nor vocab.json with merges.txt nor ", kTokenizerJson));
}

}  // namespace fourfold::data
