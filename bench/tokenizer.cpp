// How fast a tokenizer is loaded and how fast it cuts a text into tokens, in time of one processor.
// Usage: tokenizer FOLDER_OR_FILE TEXT_FILE
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fourfold/base/error.hpp"

namespace {

constexpr std::size_t kPiece = 4096;  // bytes, cut at line ends, as texts are prepared
constexpr int kPasses = 5;            // the fastest counts

double seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::size_t encode(const fourfold::data::Tokenizer& tokenizer, std::string_view text) {
  std::size_t tokens = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n', std::min(kPiece, text.size()) - 1);
    const std::string_view piece = text.substr(0, end == std::string_view::npos ? end : end + 1);
    tokens += tokenizer.encode(piece).size();
    text.remove_prefix(piece.size());
  }
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer FOLDER_OR_FILE TEXT_FILE\n");
    return 2;
  }
  try {
    double begin = seconds();
    const auto tokenizer = fourfold::data::load_tokenizer(argv[1]);
    std::printf("loaded %lld tokens in %.2f s\n", static_cast<long long>(tokenizer->vocabulary()),
                seconds() - begin);
    std::ifstream file(argv[2], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    double fastest = 1e30;
    std::size_t tokens = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      begin = seconds();
      tokens = encode(*tokenizer, text);
      fastest = std::min(fastest, seconds() - begin);
    }
    std::printf("%zu bytes, %zu tokens, %.2f MB/s\n", text.size(), tokens,
                static_cast<double>(text.size()) / fastest / 1e6);
  } catch (const fourfold::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
