// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer.hpp"

#include <filesystem>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/byte_tokenizer.hpp"
#include "fourfold/data/gpt2_files.hpp"
#include "fourfold/data/gpt2_tokenizer.hpp"
#include "fourfold/data/sentencepiece_tokenizer.hpp"

namespace fourfold::data {

namespace {

std::unique_ptr<Tokenizer> make_gpt2(Gpt2Files files) {
  if (is_byte_vocabulary(files)) return make_byte_tokenizer();
  return std::make_unique<Gpt2Tokenizer>(std::move(files));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(folder + "/" + name, error);
  };
  if (has(kSentencePieceFile)) return load_sentencepiece(folder);
  if (has("vocab.json") && has("merges.txt")) return make_gpt2(read_vocabulary_and_merges(folder));
  if (has("tokenizer.json")) return make_gpt2(read_tokenizer_json(folder));
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError(concat("the tokenizer's folder ", folder, " does not exist"));
  }
  throw ConfigError(concat("there is no tokenizer in ", folder, ": neither ", kSentencePieceFile,
                           " nor vocab.json with merges.txt nor tokenizer.json"));
}

}  // namespace fourfold::data
