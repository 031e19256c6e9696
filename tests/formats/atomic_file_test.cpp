// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/atomic_file.hpp"

#include <random>
#include <vector>

#include "fourfold/formats/checksum.hpp"

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::Cache;

class AtomicFile : public ScratchFolder {
 protected:
  /// Writes bytes in pieces of these sizes, which are repeated, and expects them in the file.
  static void expect_written(const std::filesystem::path& file, Cache cache, std::size_t total,
                             const std::vector<std::size_t>& sizes) {
    SCOPED_TRACE(concat(file.string(), ", ", total,
                        " bytes, without the cache: ", cache == Cache::kBypass ? "yes" : "no"));
    std::mt19937 random(static_cast<unsigned>(total));
    std::string bytes(total, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    formats::AtomicFile written(file, cache);
    for (std::size_t at = 0, i = 0; at < total; ++i) {
      const std::size_t size = std::min(sizes[i % sizes.size()], total - at);
      written.write(as_data(bytes).subspan(at, size));
      at += size;
    }
    EXPECT_FALSE(std::filesystem::exists(file)) << "not before it is complete";
    written.commit();
    EXPECT_TRUE(bytes_of(file) == bytes);
    EXPECT_EQ(written.size(), static_cast<std::int64_t>(total));
    EXPECT_EQ(written.checksum(), formats::checksum_of(as_data(bytes)));
    std::filesystem::remove(file);
  }
};

/// Lengths that no disk has as its own, on a disk and in memory.
TEST_F(AtomicFile, HasTheBytesWithTheCacheAndWithout) {
  constexpr std::size_t kWhole = std::size_t{1} << 22;
  const std::filesystem::path in_memory = concat("/dev/shm/fourfold-atomic-", getpid());
  for (const Cache cache : {Cache::kUse, Cache::kBypass}) {
    for (const std::filesystem::path& file : {path("file"), in_memory}) {
      expect_written(file, cache, 0, {1});
      expect_written(file, cache, 5, {2});
      expect_written(file, cache, kWhole, {kWhole});
      expect_written(file, cache, 2 * kWhole + 1, {777'777, 3});
      expect_written(file, cache, 3 * kWhole - 4095, {kWhole + 4096, 1, 300'000});
      expect_written(file, cache, 3 * kWhole, {3 * kWhole});
    }
  }
}

TEST_F(AtomicFile, LeavesNothingBehindUnlessItIsComplete) {
  put("file", "old");
  for (const Cache cache : {Cache::kUse, Cache::kBypass}) {
    formats::AtomicFile written(path("file"), cache);
    written.write(as_data("new"));
  }
  EXPECT_EQ(bytes_of(path("file")), "old");
  EXPECT_EQ(files(), std::set<std::string>{"file"});
}

/// A full disk, with both ways of writing.
TEST_F(AtomicFile, SaysThatTheDiskIsFull) {
  for (const Cache cache : {Cache::kUse, Cache::kBypass}) {
    formats::AtomicFile written(path("file"), cache);
    const std::vector<std::byte> piece(std::size_t{1} << 20);
    const SmallDisk disk(std::uint64_t{6} << 20);
    EXPECT_THROW(
        {
          for (int i = 0; i < 8; ++i) written.write(piece);
          written.commit();
        },
        IoError);
  }
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace fourfold::test
