// Converts text to tokens and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::data {

/// All functions may be called by several threads at once. Every tokenizer here is lossless:
/// decode(encode(text)) == text for every text, UTF-8 or not. (A tokenizer.json may ask for a space
/// before every text that does not begin with one: nothing else is ever added.) A token always
/// stands for the same bytes, so that the texts of tokens that are decoded one by one may be
/// joined. A token may contain only part of a character.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// No token is added at the beginning or the end. This is for texts of at most a few MiB: cut
  /// longer texts at line ends.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// Throws ConfigError for a token that is not in the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;

  /// Tokens are below this number.
  virtual std::int64_t vocabulary() const = 0;

  /// The token between documents, -1 if there is none.
  virtual std::int32_t end_of_text() const = 0;

  /// The token that users of the model put before a text, -1 if there is none. It is not put before
  /// the texts of training.
  virtual std::int32_t begin_of_text() const { return -1; }

  /// Writes the files that load_tokenizer and Hugging Face's transformers read into an existing
  /// folder. Throws IoError.
  virtual void save(const std::string& folder) const = 0;
};

/// Each byte is a token; byte 0 ends a text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Whether load_tokenizer would find files, valid or not.
bool has_tokenizer(const std::string& path);

/// A digest that changes with the files that load_tokenizer would read.
std::string tokenizer_digest(const std::string& path);

/// The tokenizer whose files are in a folder: a SentencePiece BPE (tokenizer.model), else any
/// byte-level BPE (tokenizer.json), else GPT-2's byte-level BPE (vocab.json and merges.txt). Beside
/// GPT-2's files a tokenizer.json of another kind is left aside. `path` may also be the file
/// tokenizer.json itself, under any name. Throws ConfigError when there is none, or when it is
/// damaged or changes the text.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace fourfold::data
