// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/token_kernels.hpp"

namespace fourfold::data {

namespace {

template <class Token>
std::uint32_t largest_of(const Token* tokens, std::int64_t count) {
  Token most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = tokens[i] > most ? tokens[i] : most;
  return most;
}

template <class Token>
void widen_all(const Token* tokens, std::int64_t count, std::int64_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = tokens[i];
}

}  // namespace

std::uint32_t largest(const std::uint16_t* tokens, std::int64_t count) {
  return largest_of(tokens, count);
}
std::uint32_t largest(const std::uint32_t* tokens, std::int64_t count) {
  return largest_of(tokens, count);
}
void widen(const std::uint16_t* tokens, std::int64_t count, std::int64_t* out) {
  widen_all(tokens, count, out);
}
void widen(const std::uint32_t* tokens, std::int64_t count, std::int64_t* out) {
  widen_all(tokens, count, out);
}

}  // namespace fourfold::data
