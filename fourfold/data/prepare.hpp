// Converts the user's text to tokens on disk, once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fourfold::data {

struct PrepareSpec {
  std::string text;               ///< data.text: a file, or a folder with everything below it
  std::string tokenizer = "bpe";  ///< data.tokenizer: "bpe" or "bytes"
  /// A folder whose tokenizer is used instead, unchanged, or a file tokenizer.json. Empty: none.
  std::string tokenizer_folder;
  std::int64_t vocabulary = 0;  ///< model.vocab: the size of the BPE; 0 or 256 for bytes
  double validation = 0.0;      ///< data.validation: the share of the text kept for validation
  std::string cache;            ///< data.cache: empty is default_cache_folder()
  std::int64_t learn_bytes = 100'000'000;  ///< the most text that the BPE learns from

  /// Called now and then, if set, with the current task ("reading", "learning", "encoding") and
  /// the share of it that is done.
  std::function<void(std::string_view task, double done)> progress;
};

/// The result of a preparation.
struct Prepared {
  std::string train;       ///< path for Tokens
  std::string validation;  ///< path for Tokens; empty when the share is 0
  std::string tokenizer;   ///< path for load_tokenizer
  std::int64_t vocabulary = 0;
  std::int64_t train_tokens = 0;
  std::int64_t validation_tokens = 0;
  std::int64_t bytes = 0;  ///< of text
  std::int64_t files_used = 0;
  std::int64_t files_skipped = 0;  ///< not text, empty, or a link to a used file
  bool from_cache = false;
};

/// Makes the tokens of a text, or finds them in the cache. The text is cut at line ends into pieces
/// of about 4 KiB (less if it is small). A fixed random choice of the pieces is for validation, and
/// the BPE learns from the others. The token for the end of a text is put between files. In a
/// folder, files that are not text (a byte 0, not UTF-8) are skipped.
///
/// A preparation that ends early leaves nothing that looks usable. Several preparations may run at
/// once. Throws ConfigError that names the key at fault, or IoError.
Prepared prepare(const PrepareSpec& spec);

/// $XDG_CACHE_HOME/fourfold, else $HOME/.cache/fourfold, else fourfold-UID in $TMPDIR or /tmp.
std::string default_cache_folder();

}  // namespace fourfold::data
