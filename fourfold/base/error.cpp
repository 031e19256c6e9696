// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/error.hpp"

#include <cstdio>
#include <new>

#include "fourfold/base/text.hpp"
#include "fourfold/base/units.hpp"

namespace fourfold {

namespace {

thread_local int current_rank = -1;

/// The text that follows the message in libtorch's errors.
constexpr std::string_view kStack = "Exception raised from ";
/// What libtorch's allocator says when there is no memory, before and after the number of bytes.
constexpr std::string_view kAllocator = "DefaultCPUAllocator: ";
constexpr std::string_view kTried = "you tried to allocate ";

/// The message in one line, without the stack.
std::string first_words(std::string_view what) {
  std::string line;
  for (const std::string& part : split(what.substr(0, what.find(kStack)), '\n')) {
    const std::string_view words = trim(part);
    if (!line.empty() && !words.empty()) line += ' ';
    line += words;
  }
  return line;
}

std::string message_of(const std::exception& error) {
  const std::string_view what = error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  const auto allocator = what.find(kAllocator);
  const auto tried = what.find(kTried);
  if (allocator != std::string_view::npos && tried != std::string_view::npos) {
    long long bytes = 0;
    const std::string number(what.substr(tried + kTried.size(), 20));
    if (std::sscanf(number.c_str(), "%lld", &bytes) == 1) {
      return concat("out of memory: a tensor of ", Bytes(bytes), " could not be allocated");
    }
  }
  return first_words(what);
}

}  // namespace

int this_rank() {
  return current_rank;
}
void set_this_rank(int rank) {
  current_rank = rank;
}

Error::Error(const std::string& message, Where where)
    : std::runtime_error(message), where_(where), rank_(current_rank) {}

std::string describe(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return error.what();
  const int rank = ours != nullptr ? ours->rank() : this_rank();
  std::string line = rank >= 0 ? "rank " + std::to_string(rank) + ": " : std::string();
  line += ours != nullptr ? std::string(error.what()) : message_of(error);
  if (const auto* bug = dynamic_cast<const InvariantError*>(&error)) {
    line += std::string(" (") + bug->where().file + ":" + std::to_string(bug->where().line) + ")";
  }
  return line;
}

std::string details(const std::exception& error) {
  const std::string_view what = trim(error.what());
  return what.find('\n') != std::string_view::npos ? std::string(what) : std::string();
}

}  // namespace fourfold
