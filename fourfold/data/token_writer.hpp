// Writes token files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "fourfold/data/scratch_folder.hpp"

namespace fourfold::data {

/// Writes tokens into a folder of token files (shards) that Tokens reads. The folder appears when
/// everything is written. A writer that ends without commit() leaves nothing behind.
class TokenWriter {
 public:
  static constexpr std::int64_t kShardTokens = std::int64_t{1} << 30;

  /// The parent of `folder` must exist. Tokens take 2 bytes if the `vocabulary` fits into them,
  /// else 4. Throws IoError.
  TokenWriter(std::string folder, std::int64_t vocabulary,
              std::int64_t shard_tokens = kShardTokens);
  ~TokenWriter() = default;
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Throws InvariantError for a token outside of the vocabulary, or IoError.
  void append(std::span<const std::int32_t> tokens);

  std::int64_t size() const { return tokens_; }

  /// Throws ConfigError when the folder exists by now, InvariantError when there are no tokens, or
  /// IoError. Then no folder appears.
  void commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void open_shard();
  void close_shard();
  void write(const void* data, std::size_t bytes);
  template <class Token>
  void write_tokens(std::span<const std::int32_t> tokens);
  [[noreturn]] void fail() const;

  std::string folder_;
  std::int64_t vocabulary_;
  std::int64_t shard_tokens_;
  std::int64_t tokens_ = 0;
  std::int64_t in_shard_ = 0;
  int shards_ = 0;
  ScratchFolder scratch_;
  std::string shard_path_;
  std::unique_ptr<std::FILE, Close> shard_;
};

}  // namespace fourfold::data
