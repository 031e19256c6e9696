// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/sentencepiece_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/data/sentencepiece/library.hpp"
#include "fourfold/data/sentencepiece_model.hpp"
#include "fourfold/data/token_texts.hpp"
#include "fourfold/data/utf8.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

/// The character that SentencePiece writes for a space (U+2581).
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// The text of a piece with spaces instead of their marks.
std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool mark = piece.starts_with(kSpaceMark);
    text += mark ? ' ' : piece.front();
    piece.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return text;
}

/// SentencePiece's name for the token of a byte: <0x0A>.
std::string byte_name(unsigned byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4U] + kDigits[byte & 15U] + ">";
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  /// `origin` is for messages.
  SentencePieceTokenizer(std::string model, const std::string& origin) : model_(std::move(model)) {
    const std::string why = why_unusable(model_);
    if (!why.empty()) throw ConfigError(concat(origin, " cannot be used: ", why));
    auto [loaded, problem] = sentencepiece_module::library().load(model_);
    if (!loaded) throw ConfigError(concat(origin, " is damaged: ", one_line(problem)));
    processor_ = std::move(loaded);
    pieces_ = processor_->pieces();
    std::unordered_map<std::string, std::int32_t> bytes;
    for (const auto& piece : pieces_) {
      if (piece.byte) bytes[piece.text] = static_cast<std::int32_t>(texts_.size());
      texts_.push_back(piece.silent ? "" : with_spaces(piece.text));
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto found = bytes.find(byte_name(byte));
      if (found == bytes.end()) {
        throw ConfigError(concat(origin, " is damaged: byte ", byte, " is not a token"));
      }
      byte_tokens_[byte] = found->second;
      texts_[static_cast<std::size_t>(found->second)] = std::string(1, static_cast<char>(byte));
    }
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    FOURFOLD_CHECK(text.size() < std::numeric_limits<std::int32_t>::max(), "the text is too long");
    std::vector<std::int32_t> tokens;
    while (!text.empty()) {
      const std::size_t valid = valid_length(text);
      append_valid(text.substr(0, valid), tokens);
      text.remove_prefix(valid);
      if (!text.empty()) {
        append_bytes(text.substr(0, 1), tokens);
        text.remove_prefix(1);
      }
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    return join_texts(texts_, tokens);
  }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::int32_t end_of_text() const override { return processor_->end_of_text(); }

  void save(const std::string& folder) const override {
    nlohmann::ordered_json config = {{"tokenizer_class", "LlamaTokenizer"},
                                     {"legacy", false},
                                     {"add_bos_token", false},
                                     {"add_eos_token", false},
                                     {"add_prefix_space", false},
                                     {"clean_up_tokenization_spaces", false},
                                     {"unk_token", piece(processor_->unknown())}};
    if (end_of_text() >= 0) {
      config["bos_token"] = config["eos_token"] = piece(end_of_text());
    }
    write_text(folder + "/" + kSentencePieceFile, model_);
    write_text(folder + "/tokenizer_config.json", config.dump(2) + "\n");
  }

 private:
  const std::string& piece(std::int32_t token) const {
    return pieces_[static_cast<std::size_t>(token)].text;
  }

  // SentencePiece would turn its mark into a space and bytes that are not UTF-8 into U+FFFD. So
  // both are encoded byte by byte.
  void append_valid(std::string_view text, std::vector<std::int32_t>& tokens) const {
    while (!text.empty()) {
      const std::string_view plain = text.substr(0, text.find(kSpaceMark));
      const std::vector<int> pieces = processor_->encode(plain);
      tokens.insert(tokens.end(), pieces.begin(), pieces.end());
      text.remove_prefix(plain.size());
      append_bytes(text.substr(0, kSpaceMark.size()), tokens);
      text.remove_prefix(std::min(text.size(), kSpaceMark.size()));
    }
  }

  void append_bytes(std::string_view text, std::vector<std::int32_t>& tokens) const {
    for (const char byte : text) tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
  }

  std::string model_;
  std::unique_ptr<sentencepiece_module::Model> processor_;
  std::vector<sentencepiece_module::Piece> pieces_;
  std::vector<std::string> texts_;
  std::array<std::int32_t, 256> byte_tokens_{};
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, const std::string& origin) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model), origin);
}

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& folder) {
  const std::string path = folder + "/" + kSentencePieceFile;
  return make_sentencepiece(read_whole(path), path);
}

}  // namespace fourfold::data
