// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/byte_tokenizer.hpp"

#include "fourfold/data/gpt2_files.hpp"
#include "fourfold/data/token_texts.hpp"
#include "fourfold/data/words.hpp"

namespace fourfold::data {

namespace {

constexpr std::int32_t kEndOfText = 0;

/// The same tokenizer as files of GPT-2: tokens without merges.
BpeModel byte_files() {
  BpeModel files;
  for (int byte = 0; byte < 256; ++byte) files.texts.emplace_back(1, static_cast<char>(byte));
  files.splits = {kGpt2Words};
  files.end_of_text = kEndOfText;
  return files;
}

class ByteTokenizer : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<unsigned char>(text[i]);
    return tokens;
  }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    return join_texts(files_.texts, tokens);
  }
  std::int64_t vocabulary() const override { return 256; }
  std::int32_t end_of_text() const override { return kEndOfText; }
  void save(const std::string& folder) const override { save_gpt2(files_, folder); }

 private:
  const BpeModel files_ = byte_files();
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

bool is_byte_vocabulary(const BpeModel& files) {
  return files == byte_files();
}

}  // namespace fourfold::data
