// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/bpe_trainer.hpp"

#include <algorithm>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/sentencepiece/library.hpp"
#include "fourfold/data/sentencepiece_tokenizer.hpp"
#include "fourfold/data/utf8.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

/// SentencePiece ignores longer sentences.
constexpr std::size_t kLongestSentence = 4096;

/// The tokens that always exist: bytes, the unknown and the end.
constexpr std::int64_t kFixedTokens = 258;

/// An upper limit for the vocabulary. SentencePiece counts up to the size even if the text has no
/// more.
constexpr std::int64_t kLargestVocabulary = 1 << 20;

/// U+2585, which SentencePiece reserves for itself: it ignores sentences that contain it.
constexpr std::string_view kReserved = "\xe2\x96\x85";

/// Options that make the model lossless and reproducible, without a log. Newlines are never passed
/// to SentencePiece, so that they remain tokens of their own: bytes.
sentencepiece_module::Library::Options options(std::int64_t vocabulary) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocabulary)},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"},
          {"byte_fallback", "true"},
          {"unk_id", "0"},
          {"eos_id", "1"},
          {"bos_id", "-1"},
          {"pad_id", "-1"},
          {"num_threads", "1"},
          {"minloglevel", "3"}};
}

/// The number after `words` in `message`, 0 if there is none.
std::int64_t number_behind(const std::string& message, std::string_view words) {
  const auto at = message.find(words);
  if (at == std::string::npos) return 0;
  const auto begin = at + words.size();
  const auto end = std::min(message.find_first_not_of("0123456789", begin), message.size());
  return parse_int(message.substr(begin, end - begin)).value_or(0);
}

/// Converts SentencePiece's message about a size that does not fit to ours.
std::string explain(const std::string& message, std::int64_t vocabulary) {
  const std::string wanted = concat("a vocabulary of ", vocabulary);
  if (const auto most = number_behind(message, "Please set it to a value <= "); most > 0) {
    return concat(wanted, " is too large for this text: at most ", most);
  }
  if (const auto least = number_behind(message, " vs "); least > 0) {
    return concat(wanted, " is too small for this text: at least ", least);
  }
  return concat(wanted, " cannot be learnt: ", one_line(message));
}

}  // namespace

void BpeTrainer::add(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min({text.find('\n'), text.find(kReserved), text.size()});
    add_line(text.substr(0, end));
    if (end == text.size()) return;
    text.remove_prefix(end + (text[end] == '\n' ? 1 : kReserved.size()));
  }
}

void BpeTrainer::add_line(std::string_view line) {
  while (!line.empty() && bytes_ < most_bytes_ && sentences_.size() < kMostSentences) {
    const std::size_t length =
        line.size() <= kLongestSentence ? line.size() : character_border(line, kLongestSentence);
    sentences_.emplace_back(line.substr(0, length));
    bytes_ += static_cast<std::int64_t>(length);
    line.remove_prefix(length);
  }
}

std::unique_ptr<Tokenizer> BpeTrainer::train(std::int64_t vocabulary) const {
  if (sentences_.empty()) throw ConfigError("there is no text to learn a vocabulary from");
  if (vocabulary < 1 || vocabulary > kLargestVocabulary) {
    throw ConfigError(
        concat("a vocabulary of ", vocabulary, " is not possible: at most ", kLargestVocabulary));
  }
  // Even smaller sizes fail as well, but without a message that says what would work.
  auto [model, problem] = sentencepiece_module::library().train(
      sentences_, options(std::max(vocabulary, kFixedTokens)));
  if (!problem.empty()) throw ConfigError(explain(problem, vocabulary));
  return make_sentencepiece(std::move(model), "the new vocabulary");
}

}  // namespace fourfold::data
