// Metrics as lines of JSON.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/json_lines.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "fourfold/formats/append_file.hpp"

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::AppendFile;
using formats::JsonLines;
using Fields = std::vector<JsonLines::Field>;

class Lines : public ScratchFolder {
 protected:
  /// How a number is written.
  std::string number(double value) const {
    std::filesystem::remove(path("n"));
    JsonLines(path("n")).write(Fields{{"", value}});
    const std::string line = bytes_of(path("n"));
    EXPECT_TRUE(line.starts_with("{\"\":") && line.ends_with("}\n")) << line;
    return line.substr(4, line.size() - 6);
  }
};

TEST_F(Lines, AreWholeAndInTheFileAtOnce) {
  JsonLines lines(path("m"));
  EXPECT_EQ(bytes_of(path("m")), "");
  lines.write(Fields{{"step", 1}, {"loss", 2.5}, {"say \"x\"\n", -3}});
  EXPECT_EQ(bytes_of(path("m")), "{\"step\":1,\"loss\":2.5,\"say \\\"x\\\"\\n\":-3}\n");
  lines.write({});
  EXPECT_TRUE(bytes_of(path("m")).ends_with("}\n{}\n"));
}

TEST_F(Lines, WriteNumbersSoThatTheyReadBack) {
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(-0.0), "-0.0");
  EXPECT_EQ(number(100000), "100000");
  EXPECT_EQ(number(-9007199254740992.0), "-9007199254740992");
  EXPECT_EQ(number(1e300), "1e+300");
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(1e-5), "1e-05");
  EXPECT_EQ(number(std::nan("")), "null");
  EXPECT_EQ(number(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(number(-std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(std::stod(number(std::numeric_limits<double>::max())),
            std::numeric_limits<double>::max());
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isnormal(value)) continue;
    ASSERT_EQ(parse_number(number(value)), value);
  }
}

TEST_F(Lines, ContinueAFile) {
  put("m", "{\"a\":1}\n");
  JsonLines(path("m")).write(Fields{{"b", 2}});
  EXPECT_EQ(bytes_of(path("m")), "{\"a\":1}\n{\"b\":2}\n");
  put("m", "{\"a\":1}\n{\"a");
  JsonLines(path("m")).write(Fields{{"b", 2}});
  EXPECT_EQ(bytes_of(path("m")), "{\"a\":1}\n{\"a\n{\"b\":2}\n");
}

TEST_F(Lines, AFullDiskLeavesTheLinesOfAnEarlierRun) {
  put("m", "{\"a\":1}\n");
  JsonLines lines(path("m"));
  const SmallDisk disk(10);  // a part of the next line fits
  EXPECT_THROW(lines.write(Fields{{"a", 2}}), IoError);
  EXPECT_EQ(bytes_of(path("m")), "{\"a\":1}\n");
}

TEST_F(Lines, AreWrittenWhenTheDiskHasRoomAgain) {
  {
    JsonLines lines(path("m"));
    {
      const SmallDisk disk(3);
      EXPECT_THROW(lines.write(Fields{{"a", 1}}), IoError);
      EXPECT_THROW(lines.write(Fields{{"a", 2}}), IoError);
      EXPECT_TRUE(lines.waits());
    }
    EXPECT_EQ(bytes_of(path("m")), "");
    lines.write(Fields{{"a", 3}});
    EXPECT_FALSE(lines.waits());
    EXPECT_EQ(bytes_of(path("m")), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
    {
      const SmallDisk disk(3);
      EXPECT_THROW(lines.write(Fields{{"a", 4}}), IoError);
    }
  }
  EXPECT_SAYS(bytes_of(path("m")), "{\"a\":4}\n") << "at the latest when the file is closed";
}

TEST_F(Lines, MayWaitForLongerThanIsKept) {
  const std::string large(std::size_t{17} << 20, 'x');
  AppendFile file(path("m"));
  {
    const SmallDisk disk(3);
    EXPECT_THROW(file.append(large), IoError);
    EXPECT_THROW(file.append("lost"), IoError) << "there is no room for more";
  }
  file.append("new");
  EXPECT_FALSE(file.waits());
  EXPECT_EQ(bytes_of(path("m")), large + "new");
}

TEST_F(Lines, SayWhyTheyCannotBeWritten) {
  EXPECT_EQ(message_of<IoError>([&] { JsonLines lines(path("none/m")); }),
            path("none/m").string() + " cannot be written: No such file or directory");
  JsonLines full("/dev/full");
  EXPECT_EQ(message_of<IoError>([&] { full.write({}); }),
            "/dev/full cannot be written: No space left on device");
  EXPECT_THROW(JsonLines(path("m")).write(Fields{{"\xff", 2}}), InvariantError);
}

}  // namespace
}  // namespace fourfold::test
