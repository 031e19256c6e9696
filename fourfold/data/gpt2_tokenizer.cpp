// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/gpt2_tokenizer.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "fourfold/base/check.hpp"
#include "fourfold/data/token_texts.hpp"

namespace fourfold::data {

namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
}

}  // namespace

Gpt2Tokenizer::Gpt2Tokenizer(Gpt2Files files) : files_(std::move(files)), byte_tokens_(256, -1) {
  for (std::size_t token = 0; token < files_.texts.size(); ++token) {
    const std::string& text = files_.texts[token];
    if (text.size() == 1) {
      byte_tokens_[static_cast<unsigned char>(text[0])] = static_cast<std::int32_t>(token);
    }
  }
  std::int32_t rank = 0;
  for (const Merge& merge : files_.merges) {
    rules_[pair_key(merge.left, merge.right)] = {rank++, merge.result};
  }
}

const Gpt2Tokenizer::Rule* Gpt2Tokenizer::find_rule(std::int32_t left, std::int32_t right) const {
  const auto found = rules_.find(pair_key(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

/// One word while it is merged: a linked list of tokens and a heap of the merges that were possible
/// when they were added. A merge costs the logarithm of the word's length, so that even a word of a
/// million letters is fast.
class Gpt2Tokenizer::Word {
 public:
  explicit Word(const Gpt2Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Appends the tokens of `text`, which must not be empty.
  void encode(std::string_view text, std::vector<std::int32_t>& tokens) {
    parts_.clear();
    for (const char byte : text) {
      const auto at = static_cast<std::int32_t>(parts_.size());
      parts_.push_back({tokenizer_.byte_tokens_[static_cast<unsigned char>(byte)], at - 1, at + 1});
    }
    parts_.back().next = kNone;
    for (std::int32_t at = 0; at + 1 < static_cast<std::int32_t>(parts_.size()); ++at) offer(at);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const Candidate best = heap_.back();
      heap_.pop_back();
      if (still_there(best)) merge(best);
    }
    for (std::int32_t at = 0; at != kNone; at = part(at).next) tokens.push_back(part(at).token);
  }

 private:
  static constexpr std::int32_t kNone = -1;

  struct Part {
    std::int32_t token = 0;  // kNone once it has been merged into the one before
    std::int32_t before = kNone;
    std::int32_t next = kNone;
  };
  struct Candidate {
    std::int32_t rank = 0;
    std::int32_t at = 0;  // the left part
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t result = 0;

    auto operator<=>(const Candidate&) const = default;
  };

  Part& part(std::int32_t at) { return parts_[static_cast<std::size_t>(at)]; }

  /// Makes the pair that begins at `at` a candidate if there is a rule for it.
  void offer(std::int32_t at) {
    const std::int32_t left = part(at).token;
    const std::int32_t right = part(part(at).next).token;
    const Rule* rule = tokenizer_.find_rule(left, right);
    if (rule == nullptr) return;
    heap_.push_back({rule->rank, at, left, right, rule->result});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  bool still_there(const Candidate& candidate) {
    const Part& left = part(candidate.at);
    return left.token == candidate.left && left.next != kNone &&
           part(left.next).token == candidate.right;
  }

  void merge(const Candidate& candidate) {
    Part& left = part(candidate.at);
    Part& right = part(left.next);
    left.token = candidate.result;
    left.next = right.next;
    right.token = kNone;
    if (left.next != kNone) {
      part(left.next).before = candidate.at;
      offer(candidate.at);
    }
    if (left.before != kNone) offer(left.before);
  }

  const Gpt2Tokenizer& tokenizer_;
  std::vector<Part> parts_;
  std::vector<Candidate> heap_;
};

std::vector<std::int32_t> Gpt2Tokenizer::encode(std::string_view text) const {
  FOURFOLD_CHECK(text.size() < std::numeric_limits<std::int32_t>::max(), "the text is too long");
  std::vector<std::int32_t> tokens;
  Word word(*this);
  for (const std::string_view piece : cutter_.cut(text)) word.encode(piece, tokens);
  return tokens;
}

std::string Gpt2Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  return join_texts(files_.texts, tokens);
}

std::int64_t Gpt2Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(files_.texts.size());
}

}  // namespace fourfold::data
