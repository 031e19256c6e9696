// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/manifest.hpp"

#include <gtest/gtest.h>

#include "fourfold/formats/checksum.hpp"

#include "tests/formats/damage.hpp"
#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::Manifest;

const Manifest kManifest{.step = 100,
                         .samples = 800,
                         .train_units = 123456,
                         .config = "[train]\nbatch = 8\n# \"quotes\" and a tab\t\n",
                         .files = {{"rank-00000.safetensors", 1 << 20, 0x0123456789abcdefU},
                                   {"rank-00001.safetensors", 7, 1}}};

class ManifestFile : public ScratchFolder {};

TEST_F(ManifestFile, ReadsBackEqual) {
  EXPECT_EQ(formats::parse_manifest(formats::to_text(kManifest), "here"), kManifest);
  put("manifest.json", formats::to_text(kManifest));
  EXPECT_EQ(formats::read_manifest(folder_), kManifest);
  EXPECT_EQ(kManifest.bytes(), (1 << 20) + 7);
}

TEST_F(ManifestFile, NoticesEveryFlippedBit) {
  const std::string text = formats::to_text(kManifest);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(formats::parse_manifest(bad, "here"), ConfigError) << bit;
  }
}

TEST_F(ManifestFile, RefusesEveryDamage) {
  const std::string text = formats::to_text(kManifest);
  const Outcomes outcomes = damage_often(text, 3000, 1, [&](const std::string& bad) {
    if (bad != text) formats::parse_manifest(bad, "here");
  });
  EXPECT_LE(outcomes.accepted, 30) << "only damages that changed nothing";
}

/// A manifest with another beginning, and the checksum that belongs to it.
std::string with_checksum(const std::string& text) {
  const std::string before = text.substr(0, text.rfind("\n}"));
  return concat(before, ",\n  \"xxh3\": \"",
                formats::checksum_text(formats::checksum_of(as_data(before))), "\"\n}\n");
}

TEST_F(ManifestFile, RefusesWhatIsNotAManifest) {
  const auto said = [](const std::string& text) {
    return message_of<ConfigError>([&] { formats::parse_manifest(with_checksum(text), "here"); });
  };
  EXPECT_SAYS(said("{\n  \"a\": 1\n}"), "lacks \"format\"");
  EXPECT_SAYS(said("[1\n}"), "it is not JSON");
  const std::string head =
      "{\"format\": \"fourfold checkpoint\", \"version\": 1, \"step\": 1, "
      "\"samples\": 1, \"train_units\": 1, \"config\": \"\"";
  EXPECT_SAYS(said(head + "\n}"), "lacks \"files\"");
  const auto with_file = [&](const std::string& file) {
    return said(concat(head, ", \"files\": [", file, "]\n}"));
  };
  EXPECT_SAYS(with_file("1"), "a file is not an object");
  EXPECT_SAYS(with_file("{\"name\": \"../x\", \"bytes\": 1, \"xxh3\": \"0123456789abcdef\"}"),
              "\"name\" of a file is not the name of a file in the same folder");
  EXPECT_SAYS(with_file("{\"name\": \"x\", \"bytes\": -1, \"xxh3\": \"0123456789abcdef\"}"),
              "\"bytes\" of a file is not a whole number");
  EXPECT_SAYS(with_file("{\"name\": \"x\", \"bytes\": 1, \"xxh3\": \"0123\"}"), "16 hexadecimal");
  const std::string file = "{\"name\": \"x\", \"bytes\": 1, \"xxh3\": \"0123456789abcdef\"}";
  EXPECT_SAYS(with_file(file + "," + file), "names 'x' twice");
  EXPECT_EQ(with_file(file), "nothing was thrown");
  // Each is a size, and both together are more than there are numbers.
  const auto large = [](const char* name) {
    return concat("{\"name\": \"", name,
                  "\", \"bytes\": 4611686018427387904, \"xxh3\": \"0123456789abcdef\"}");
  };
  EXPECT_EQ(with_file(large("x")), "nothing was thrown");
  EXPECT_SAYS(with_file(large("x") + "," + large("y")), "more bytes than a disk can hold");
  EXPECT_SAYS(said("{\"format\": \"fourfold checkpoint\", \"version\": 2\n}"), "version 2");
}

TEST_F(ManifestFile, ChecksumsAreThoseOfXxh3) {
  EXPECT_EQ(formats::checksum_text(formats::checksum_of({})), "2d06800538d394c2");
  const std::string text(3'000'000, 'x');
  formats::Checksum sum;
  sum.add(as_data(text.substr(0, 1000)));
  sum.add(as_data(text.substr(1000)));
  EXPECT_EQ(sum.value(), formats::checksum_of(as_data(text)));
  EXPECT_EQ(formats::checksum_of_file(put("file", text)), sum.value());
  EXPECT_SAYS(message_of<IoError>([&] { formats::checksum_of_file(path("none")); }),
              "none cannot be read: No such file");
}

}  // namespace
}  // namespace fourfold::test
