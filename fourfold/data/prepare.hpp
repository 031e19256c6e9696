// From the user's text to tokens on disk, once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fourfold::data {

struct PrepareSpec {
  std::string text;               ///< data.text: a file, or a folder with all below it
  std::string tokenizer = "bpe";  ///< data.tokenizer: "bpe" or "bytes"
  /// A folder whose tokenizer is used instead, as it is; empty: none.
  std::string tokenizer_folder;
  std::int64_t vocabulary = 0;  ///< model.vocab: of the BPE; 0 or 256 for bytes
  double validation = 0.0;      ///< data.validation: the share of the text kept for validation
  std::string cache;            ///< data.cache: empty is default_cache_folder()
  std::int64_t learn_bytes = 100'000'000;  ///< how much of the text the BPE learns from at most

  /// Called now and then, if set, with what is being done ("reading", "learning", "encoding") and
  /// the share of it that is done.
  std::function<void(std::string_view stage, double done)> progress;
};

/// What there is now.
struct Prepared {
  std::string train;       ///< for Tokens
  std::string validation;  ///< for Tokens; empty when the share is 0
  std::string tokenizer;   ///< for load_tokenizer
  std::int64_t vocabulary = 0;
  std::int64_t train_tokens = 0;
  std::int64_t validation_tokens = 0;
  std::int64_t bytes = 0;  ///< of text
  std::int64_t files_used = 0;
  std::int64_t files_skipped = 0;  ///< not text, empty, or a link to one that is used
  bool from_cache = false;
};

/// Makes the tokens of a text, or finds them in the cache. The text is cut into pieces of about
/// 4 KiB (less if it is small) at line ends, of which a fixed random choice goes to validation; the
/// BPE learns from the others. The token for the end of a text stands between files. In a folder,
/// files that are not text (a byte 0, not UTF-8) are skipped.
///
/// A preparation that ends early leaves nothing that looks usable; several at once do not disturb
/// each other. Throws ConfigError that names the key at fault, IoError.
Prepared prepare(const PrepareSpec& spec);

/// $XDG_CACHE_HOME/fourfold, else $HOME/.cache/fourfold, else fourfold-UID in $TMPDIR or /tmp.
std::string default_cache_folder();

}  // namespace fourfold::data
