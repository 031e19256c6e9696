// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/merger.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "fourfold/data/mix.hpp"

namespace fourfold::data {

namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
}

}  // namespace

Merger::Merger(const ByteTokens& byte_tokens, const std::vector<Merge>& merges)
    : byte_tokens_(byte_tokens), rules_(std::bit_ceil(2 * merges.size() + 1)) {
  std::int32_t rank = 0;
  for (const Merge& merge : merges) {
    const std::uint64_t pair = pair_key(merge.left, merge.right);
    rules_[slot(pair)] = {pair, rank++, merge.result};
  }
}

/// The place of the pair in the table, or the free place where it would be.
std::size_t Merger::slot(std::uint64_t pair) const {
  const std::size_t mask = rules_.size() - 1;
  std::size_t at = mix(pair) & mask;
  while (rules_[at].pair != pair && rules_[at].pair != kNoPair) at = (at + 1) & mask;
  return at;
}

const Merger::Rule* Merger::find(std::int32_t left, std::int32_t right) const {
  const Rule& rule = rules_[slot(pair_key(left, right))];
  return rule.pair == kNoPair ? nullptr : &rule;
}

void Merger::Word::encode(std::string_view text, std::vector<std::int32_t>& tokens) {
  if (text.size() <= kShort) {
    encode_short(text, tokens);
  } else {
    encode_long(text, tokens);
  }
}

void Merger::Word::encode_short(std::string_view text, std::vector<std::int32_t>& tokens) const {
  constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  struct Place {
    std::int32_t token = 0;
    std::int32_t rank = kNever;  // of the merge with the next place
    std::int32_t result = kNone;
  };
  std::array<Place, kShort> places;
  std::size_t count = 0;
  for (const char byte : text) {
    places[count++] = {merger_.byte_tokens_[static_cast<unsigned char>(byte)], kNever, kNone};
  }
  const auto look = [&](std::size_t at) {
    Place& place = places[at];
    const Rule* rule = at + 1 < count ? merger_.find(place.token, places[at + 1].token) : nullptr;
    place.rank = rule == nullptr ? kNever : rule->rank;
    place.result = rule == nullptr ? kNone : rule->result;
  };
  for (std::size_t at = 0; at < count; ++at) look(at);
  while (true) {
    std::size_t best = 0;
    for (std::size_t at = 1; at < count; ++at) {
      if (places[at].rank < places[best].rank) best = at;
    }
    if (places[best].rank == kNever) break;
    places[best].token = places[best].result;
    std::move(places.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              places.begin() + static_cast<std::ptrdiff_t>(count),
              places.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    look(best);
    if (best > 0) look(best - 1);
  }
  for (std::size_t at = 0; at < count; ++at) tokens.push_back(places[at].token);
}

/// The word is a linked list of tokens, with a heap of the merges that were possible when they were
/// added. A merge costs the logarithm of the word's length, so that even a word of a million
/// letters is fast.
void Merger::Word::encode_long(std::string_view text, std::vector<std::int32_t>& tokens) {
  parts_.clear();
  for (const char byte : text) {
    const auto at = static_cast<std::int32_t>(parts_.size());
    parts_.push_back({merger_.byte_tokens_[static_cast<unsigned char>(byte)], at - 1, at + 1});
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

/// Makes the pair that begins at `at` a candidate if there is a rule for it.
void Merger::Word::offer(std::int32_t at) {
  const std::int32_t left = part(at).token;
  const std::int32_t right = part(part(at).next).token;
  const Rule* rule = merger_.find(left, right);
  if (rule == nullptr) return;
  heap_.push_back({rule->rank, at, left, right, rule->result});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

bool Merger::Word::still_there(const Candidate& candidate) {
  const Part& left = part(candidate.at);
  return left.token == candidate.left && left.next != kNone &&
         part(left.next).token == candidate.right;
}

void Merger::Word::merge(const Candidate& candidate) {
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

}  // namespace fourfold::data
