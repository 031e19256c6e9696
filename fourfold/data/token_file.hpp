// Files of tokens in llm.c's format, mapped into memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fourfold::data {

/// The header: 256 int32, of which three are used; the tokens follow.
inline constexpr std::int64_t kTokenHeaderBytes = 1024;
inline constexpr std::int32_t kMagic16 = 20240520;  ///< with version 1: tokens are uint16
inline constexpr std::int32_t kMagic32 = 20240801;  ///< with version 7: tokens are uint32
/// The number of tokens that are checked at the start of a run: 64 MiB of tokens of 2 bytes.
inline constexpr std::int64_t kTokensLookedAt = std::int64_t{1} << 25;

/// A sequence of tokens in one file, or in the *.bin files of a folder one after the other by name.
/// It is read-only and cheap to copy; copies and slices share the mapping. May be used by several
/// threads at once.
class Tokens {
 public:
  /// Throws ConfigError when a file is not a complete token file, and IoError when it cannot be
  /// mapped.
  explicit Tokens(const std::string& path);

  std::int64_t size() const { return end_ - begin_; }

  /// Writes tokens begin, ..., begin + count - 1 to `out`. Throws InvariantError beyond the end.
  void read(std::int64_t begin, std::int64_t count, std::int64_t* out) const;

  /// Tokens begin, ..., end - 1 as a sequence of their own. Throws InvariantError beyond the end.
  Tokens slice(std::int64_t begin, std::int64_t end) const;

  /// Throws ConfigError that names the file, the position in it and the token for the first token
  /// that is not below `vocabulary`. Reads everything once.
  void check_below(std::int64_t vocabulary) const;

  /// The same for some of the tokens, at most `most`: all tokens of a short sequence, else pieces
  /// that are spread evenly from its beginning to its end. Returns how many tokens were checked.
  std::int64_t check_some_below(std::int64_t vocabulary, std::int64_t most = kTokensLookedAt) const;

 private:
  class File;

  /// Calls `use(file, first, count)` for the part of each file that is in the range.
  template <class Use>
  void for_each_part(std::int64_t begin, std::int64_t count, const Use& use) const;

  std::vector<std::shared_ptr<const File>> files_;
  std::vector<std::int64_t> starts_;  // the start of each file, and the end of the last
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace fourfold::data
