// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/bpe_tokenizer.hpp"

#include <limits>

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/data/gpt2_files.hpp"
#include "fourfold/data/token_texts.hpp"

namespace fourfold::data {

BpeTokenizer::BpeTokenizer(BpeModel model, std::vector<StoredFile> files)
    : model_(std::move(model)),
      files_(std::move(files)),
      merger_(learned_tokens(), model_.merges),
      cutter_(model_.splits) {
  for (const AddedToken& added : model_.added) {
    AddedFinder& finder = added.late ? late_ : early_;
    finder.add(model_.texts[static_cast<std::size_t>(added.token)], added.token);
  }
}

Merger::ByteTokens BpeTokenizer::learned_tokens() {
  std::vector<bool> only_added(model_.texts.size(), false);
  for (const AddedToken& added : model_.added) {
    only_added[static_cast<std::size_t>(added.token)] = !added.learned;
  }
  Merger::ByteTokens bytes{};
  for (std::size_t token = 0; token < model_.texts.size(); ++token) {
    const std::string& text = model_.texts[token];
    if (only_added[token]) continue;
    if (text.size() == 1) {
      bytes[static_cast<unsigned char>(text[0])] = static_cast<std::int32_t>(token);
    }
    if (model_.whole_words) whole_words_.emplace(text, static_cast<std::int32_t>(token));
  }
  return bytes;
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  FOURFOLD_CHECK(text.size() < std::numeric_limits<std::int32_t>::max(), "the text is too long");
  std::vector<std::int32_t> tokens;
  Merger::Word word(merger_);
  const auto use_token = [&](std::int32_t token) { tokens.push_back(token); };
  early_.split(text, use_token, [&](std::string_view between) {
    late_.split(between, use_token,
                [&](std::string_view rest) { encode_words(rest, word, tokens); });
  });
  return tokens;
}

void BpeTokenizer::encode_words(std::string_view text, Merger::Word& word,
                                std::vector<std::int32_t>& tokens) const {
  std::string with_space;
  if (model_.space_before && text.front() != ' ') {
    with_space = concat(" ", text);
    text = with_space;
  }
  for (const std::string_view piece : cutter_.cut(text)) {
    const auto whole = whole_words_.find(piece);
    if (whole != whole_words_.end()) {
      tokens.push_back(whole->second);
    } else {
      word.encode(piece, tokens);
    }
  }
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  return join_texts(model_.texts, tokens);
}

std::int64_t BpeTokenizer::vocabulary() const {
  return static_cast<std::int64_t>(model_.texts.size());
}

void BpeTokenizer::save(const std::string& folder) const {
  if (files_.empty()) save_gpt2(model_, folder);
  for (const StoredFile& file : files_) write_text(folder + "/" + file.name, file.content);
}

}  // namespace fourfold::data
