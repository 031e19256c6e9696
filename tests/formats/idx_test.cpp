// IDX files, plain and packed: what is accepted, and what each damage is called.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/idx.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fourfold/formats/gzip.hpp"

#include "tests/formats/damage.hpp"
#include "tests/formats/image_bytes.hpp"
#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::GzipReader;
using formats::IdxFile;
using Shape = std::vector<std::int64_t>;

std::string_view text_of(const IdxFile& file) {
  return as_text(std::as_bytes(file.values()));
}

class Idx : public ScratchFolder {
 protected:
  /// The refusal of a file of these bytes, of which it checks what all have in common.
  std::string refusal(const std::string& bytes) const {
    const auto file = put("bad", bytes);
    const std::string text = message_of<ConfigError>([&] { IdxFile reader(file); });
    EXPECT_EQ(text.find(file.string() + " cannot be used: "), 0U) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
};

const std::string kImages = idx_bytes({2, 3, 2}, "abcdefABCDEF");

TEST_F(Idx, ReadsImagesAndLabelsPlainAndPacked) {
  for (const bool packed : {false, true}) {
    const auto as_file = [&](const std::string& bytes) {
      return put("file", packed ? gzip_bytes(bytes) : bytes);
    };
    const IdxFile images(as_file(kImages));
    EXPECT_EQ(images.shape(), (Shape{2, 3, 2}));
    EXPECT_EQ(text_of(images), "abcdefABCDEF");
    EXPECT_EQ(images.path(), path("file"));
    const IdxFile labels(as_file(idx_bytes({4}, std::string("\0\xff\x7f\x80", 4))));
    EXPECT_EQ(labels.shape(), Shape{4});
    EXPECT_EQ(labels.values()[1], 255);
    const IdxFile none(as_file(idx_bytes({0, 28, 28}, "")));
    EXPECT_EQ(none.shape(), (Shape{0, 28, 28}));
    EXPECT_TRUE(none.values().empty());
  }
}

TEST_F(Idx, StaysValidWhenMoved) {
  for (const bool packed : {false, true}) {
    std::optional<IdxFile> first(put("file", packed ? gzip_bytes(kImages) : kImages));
    const IdxFile second = std::move(*first);
    first.reset();
    EXPECT_EQ(text_of(second), "abcdefABCDEF");
  }
}

TEST_F(Idx, ReadsLargeFilesAndSeveralMembers) {
  std::string values;
  for (int i = 0; i < 300'000; ++i) values += static_cast<char>(i ^ i >> 7);
  const std::string all = idx_bytes({3, 1000, 100}, values);
  EXPECT_EQ(text_of(IdxFile(put("one", gzip_bytes(all)))), values);
  // The cuts are inside of the header and inside of the values; one member is empty.
  const std::string several = gzip_bytes(all.substr(0, 5)) + gzip_bytes(all.substr(5, 70'000)) +
                              gzip_bytes("") + gzip_bytes(all.substr(70'005));
  EXPECT_EQ(text_of(IdxFile(put("several", several))), values);
}

TEST_F(Idx, RefusesWhatIsNoFile) {
  EXPECT_SAYS(message_of<ConfigError>([&] { IdxFile file(path("none")); }),
              "none cannot be read: No such file or directory; check the path");
  EXPECT_SAYS(message_of<ConfigError>([&] { IdxFile file(folder_); }), "is not a file");
}

TEST_F(Idx, RefusesOtherFormats) {
  for (const bool packed : {false, true}) {
    const auto refused = [&](const std::string& bytes) {
      return refusal(packed ? gzip_bytes(bytes) : bytes);
    };
    EXPECT_SAYS(refused(""), "it ends within its IDX header");
    EXPECT_SAYS(refused("P5 28 28 255\n"), "not an IDX file, which begins with two zero bytes");
    EXPECT_SAYS(refused(idx_bytes({1, 1, 1}, "xxxx", 13)),
                "its values are of the IDX type 13, not unsigned bytes (8)");
    EXPECT_SAYS(refused(idx_bytes({1, 1, 1}, "x", 7)), "of the IDX type 7");
    EXPECT_SAYS(refused(idx_bytes({}, "")), "it has 0 dimensions, not 1 (labels) or 3 (images)");
    EXPECT_SAYS(refused(idx_bytes({1, 1}, "x")), "it has 2 dimensions");
    EXPECT_SAYS(refused(idx_bytes({1, 1, 1, 1}, "x")), "it has 4 dimensions");
  }
}

TEST_F(Idx, RefusesSizesThatAreNotThoseOfTheFile) {
  constexpr std::uint32_t kMost = 0xFFFFFFFF;
  EXPECT_SAYS(refusal(idx_bytes({2, 3, 2}, "abcdefABCDE")),
              "its header announces 2 x 3 x 2 = 12 bytes, but 11 follow (cut short);");
  EXPECT_SAYS(refusal(idx_bytes({2, 3, 2}, "abcdefABCDEF+")), "= 12 bytes, but 13 follow;");
  EXPECT_SAYS(refusal(idx_bytes({kMost, kMost, kMost}, "x")),
              "its dimensions 4294967295 x 4294967295 x 4294967295 are too large");
  EXPECT_SAYS(refusal(idx_bytes({kMost, kMost, 1}, "x")), "bytes, but 1 follow (cut short)");
  EXPECT_SAYS(refusal(idx_bytes({0, kMost, kMost}, "x")), "= 0 bytes, but 1 follow");
  EXPECT_SAYS(refusal(gzip_bytes(idx_bytes({2, 3, 2}, "abcdefABCDE"))),
              "= 12 bytes, but 11 follow (cut short)");
  EXPECT_SAYS(refusal(gzip_bytes(idx_bytes({2, 3, 2}, "abcdefABCDEF+"))),
              "= 12 bytes, but more follow");
  EXPECT_SAYS(refusal(gzip_bytes(idx_bytes({kMost, kMost, kMost}, "x"))), "are too large");
  EXPECT_SAYS(refusal(gzip_bytes(idx_bytes({kMost, kMost, 1}, "x"))),
              "bytes of gzip cannot hold so many");
}

TEST_F(Idx, UnpacksNoMoreThanTheHeaderAnnounces) {
  // A gigabyte, of which only the beginning is needed to refuse it: the damage at its end would
  // have another name.
  std::string zeros = gzip_bytes(std::string(1 << 24, '\0'));
  std::string bomb = gzip_bytes(idx_bytes({1, 2, 2}, "abcd"));
  for (int i = 0; i < 64; ++i) bomb += zeros;
  EXPECT_SAYS(refusal(bomb + "damage"), "1 x 2 x 2 = 4 bytes, but more follow");
}

TEST_F(Idx, RefusesDamagedGzip) {
  const std::string good = gzip_bytes(kImages);
  std::string flipped = good;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);
  EXPECT_SAYS(refusal(flipped), "its gzip data is damaged: incorrect data check");
  EXPECT_SAYS(refusal("\x1f\x8b\x07 compressed by other means"),
              "its gzip data is damaged: unknown comp");
  EXPECT_SAYS(refusal(good.substr(0, good.size() - 1)), "its gzip data is cut short");
  EXPECT_SAYS(refusal(good + "garbage"), "after its gzip data 7 other bytes follow");
  EXPECT_SAYS(refusal(good + good), "= 12 bytes, but more follow");
}

TEST_F(Idx, EveryTruncationIsRefused) {
  for (const std::string& good : {kImages, gzip_bytes(kImages)}) {
    EXPECT_NO_THROW(IdxFile(put("file", good)));
    for (std::size_t size = 0; size < good.size(); ++size) {
      EXPECT_SAYS(refusal(good.substr(0, size)), "cannot be used") << size;
    }
  }
}

TEST_F(Idx, DamagedFilesAreRefusedOrWhole) {
  const auto read = [&](const std::string& bytes) {
    const IdxFile file(put("file", bytes));
    std::int64_t count = 1;
    for (const std::int64_t dimension : file.shape()) count *= dimension;
    ASSERT_EQ(static_cast<std::int64_t>(file.values().size()), count);
    unsigned sum = 0;
    for (const unsigned value : file.values()) sum += value;
    EXPECT_LE(sum, 255 * file.values().size());
  };
  const Outcomes plain = damage_often(kImages, 4000, 1, read);
  EXPECT_GT(plain.refused, 1000);
  EXPECT_GT(plain.accepted, 50);  // other values are none of our business
  const Outcomes packed = damage_often(gzip_bytes(kImages), 4000, 2, read);
  EXPECT_GT(packed.refused, 3000);
}

TEST(Gzip, ReadsInPiecesOfAnySize) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919);
  const std::string packed = gzip_bytes(text.substr(0, 777)) + gzip_bytes(text.substr(777));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, text.size()}) {
    GzipReader reader(as_data(packed), "file");
    std::string all;
    std::vector<std::byte> bytes(piece);
    for (std::size_t count = piece; count == piece;) {
      count = reader.read(bytes);
      all += as_text(std::span(bytes).first(count));
    }
    EXPECT_EQ(all, text) << piece;
    EXPECT_EQ(reader.read(bytes), 0U);
  }
}

}  // namespace
}  // namespace fourfold::test
