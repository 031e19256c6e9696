// Event files for TensorBoard, read back by a reader that shares nothing with the writer.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/tensorboard.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "fourfold/formats/crc32c.hpp"

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::EventWriter;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

/// Long division of the bits as they are sent, the lowest of each byte first, by the polynomial in
/// its usual direction.
std::uint32_t divided(std::string_view bytes) {
  const auto reversed = [](std::uint32_t value) {
    std::uint32_t result = 0;
    for (int i = 0; i < 32; ++i) result |= ((value >> i) & 1U) << (31 - i);
    return result;
  };
  std::uint32_t remainder = 0xFFFFFFFF;
  for (const char c : bytes) {
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t bit = (static_cast<unsigned char>(c) >> i) & 1U;
      const bool subtract = (remainder >> 31) != bit;
      remainder <<= 1;
      if (subtract) remainder ^= 0x1EDC6F41;
    }
  }
  return ~reversed(remainder);
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8U;
  return rotated << 15 | rotated >> 17;
}

template <class Number>
Number take(std::string_view& bytes) {
  if (bytes.size() < sizeof(Number)) throw std::runtime_error("cut short");
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(Number));
  bytes.remove_prefix(sizeof(Number));
  return number;
}

std::string_view take_bytes(std::string_view& bytes, std::uint64_t count) {
  if (bytes.size() < count) throw std::runtime_error("cut short");
  const std::string_view piece = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return piece;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("an endless number");
}

/// A field's raw value, whatever its type.
struct Field {
  int type = 0;
  std::uint64_t number = 0;
  std::string text;
};

std::map<std::uint64_t, Field> fields(std::string_view message) {
  std::map<std::uint64_t, Field> all;
  while (!message.empty()) {
    const std::uint64_t tag = take_varint(message);
    Field field;
    field.type = static_cast<int>(tag & 7);
    if (field.type == 0) field.number = take_varint(message);
    if (field.type == 1) field.number = take<std::uint64_t>(message);
    if (field.type == 2) field.text = take_bytes(message, take_varint(message));
    if (field.type == 5) field.number = take<std::uint32_t>(message);
    if (field.type > 5 || field.type == 3) throw std::runtime_error("an unknown type");
    if (!all.emplace(tag >> 3, field).second) throw std::runtime_error("a field twice");
  }
  return all;
}

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  std::string tag;
  float value = 0;
};

const Field& typed(const std::map<std::uint64_t, Field>& all, std::uint64_t number, int type) {
  if (all.at(number).type != type) throw std::runtime_error("a field of another type");
  return all.at(number);
}

Event parse_event(std::string_view message) {
  const auto all = fields(message);
  Event event;
  event.wall_time = std::bit_cast<double>(typed(all, 1, 1).number);
  if (all.contains(3)) {
    event.version = typed(all, 3, 2).text;
    return event;
  }
  event.step = static_cast<std::int64_t>(typed(all, 2, 0).number);
  const auto summary = fields(typed(all, 5, 2).text);
  const auto value = fields(typed(summary, 1, 2).text);
  event.tag = typed(value, 1, 2).text;
  event.value = std::bit_cast<float>(static_cast<std::uint32_t>(typed(value, 2, 5).number));
  return event;
}

/// All events of a file's bytes; throws when they are not whole records with the right checksums.
std::vector<Event> read_events(std::string_view bytes) {
  std::vector<Event> events;
  while (!bytes.empty()) {
    const std::string_view length_bytes = bytes.substr(0, 8);
    const auto length = take<std::uint64_t>(bytes);
    if (unmasked(take<std::uint32_t>(bytes)) != divided(length_bytes)) {
      throw std::runtime_error("the length is damaged");
    }
    const std::string_view message = take_bytes(bytes, length);
    if (unmasked(take<std::uint32_t>(bytes)) != divided(message)) {
      throw std::runtime_error("the event is damaged");
    }
    events.push_back(parse_event(message));
  }
  return events;
}

TEST(Crc32c, MatchesKnownValuesAndLongDivision) {
  EXPECT_EQ(formats::crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(formats::masked_crc32c("123456789"), 0xc78ab0e5U);
  EXPECT_EQ(formats::crc32c(""), 0U);
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    bytes += static_cast<char>(i * 37);
    ASSERT_EQ(formats::crc32c(bytes), divided(bytes)) << i;
  }
}

TEST(Records, AreTheKnownBytes) {
  EXPECT_EQ(formats::version_record(1.0),
            from_hex("1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a32"
                     "86bf577a"));
  EXPECT_EQ(formats::scalar_record("loss", 1, 2.5F, 1.0),
            from_hex("1a00000000000000129bd82d09000000000000f03f10012a0d0a0b0a046c6f73731500002040"
                     "269910bb"));
}

TEST(Records, ReadBackForAllSizes) {
  for (const std::int64_t step :
       {std::int64_t{0}, std::int64_t{127}, std::int64_t{128}, std::int64_t{1} << 40,
        std::numeric_limits<std::int64_t>::max(), std::int64_t{-1}}) {
    for (const std::size_t size : {0, 1, 100, 127, 128, 300, 20000}) {
      const std::string tag(size, 't');
      const auto events = read_events(formats::scalar_record(tag, step, -0.1F, 1.7e9 + 0.25));
      ASSERT_EQ(events.size(), 1U);
      EXPECT_EQ(events[0].tag, tag);
      EXPECT_EQ(events[0].step, step);
      EXPECT_EQ(events[0].value, -0.1F);
      EXPECT_EQ(events[0].wall_time, 1.7e9 + 0.25);
    }
  }
}

class Events : public ScratchFolder {};

TEST_F(Events, AreInTheFileAtOnce) {
  const double before = formats::unix_time();
  EventWriter writer(path("runs/one"));
  auto events = read_events(bytes_of(writer.path()));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GE(events[0].wall_time, before);
  EXPECT_LE(events[0].wall_time, formats::unix_time());

  writer.scalar("train/loss", 3, 10.25);
  writer.scalar("train/loss", 4, std::nan(""), 12.5);
  writer.scalar("rate", 5, -std::numeric_limits<double>::infinity(), 13);
  events = read_events(bytes_of(writer.path()));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[1].tag, "train/loss");
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[1].value, 10.25F);
  EXPECT_GE(events[1].wall_time, before);
  EXPECT_LE(events[1].wall_time, formats::unix_time());
  EXPECT_TRUE(std::isnan(events[2].value));
  EXPECT_EQ(events[2].wall_time, 12.5);
  EXPECT_EQ(events[3].tag, "rate");
  EXPECT_EQ(events[3].value, -std::numeric_limits<float>::infinity());
  EXPECT_NO_THROW(writer.flush());
}

TEST_F(Events, EveryWriterHasAFileOfItsOwn) {
  EventWriter one(folder_);
  EventWriter two(folder_);
  two.scalar("a", 1, 1);
  EXPECT_NE(one.path(), two.path());
  EXPECT_EQ(files().size(), 2U);
  EXPECT_EQ(read_events(bytes_of(one.path())).size(), 1U);
  EXPECT_EQ(read_events(bytes_of(two.path())).size(), 2U);
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  const std::string name = one.path().filename().string();
  EXPECT_EQ(name.substr(0, 20), "events.out.tfevents.");
  EXPECT_NEAR(std::stod(name.substr(20, 10)), formats::unix_time(), 60.0);
  EXPECT_EQ(name.find(concat(".", host.data(), ".")), 30U) << name;
}

TEST_F(Events, AFullDiskLeavesWholeRecords) {
  EventWriter writer(folder_);
  writer.scalar("a", 1, 1, 1);
  const std::string before = bytes_of(writer.path());
  {
    const SmallDisk disk(before.size() + 10);  // a part of the next record fits
    EXPECT_EQ(message_of<IoError>([&] { writer.scalar("a", 2, 2, 2); }),
              writer.path().string() + " cannot be written: File too large");
    EXPECT_EQ(bytes_of(writer.path()), before);
  }
  EXPECT_TRUE(writer.waits());
  writer.scalars(3, std::vector<formats::Scalar>{{"a", 3}, {"b", 4}}, 3);
  EXPECT_FALSE(writer.waits());
  const auto events = read_events(bytes_of(writer.path()));
  ASSERT_EQ(events.size(), 5U) << "what could not be written is not lost";
  EXPECT_EQ(events[2].step, 2);
  EXPECT_EQ(events[4].tag, "b");
}

TEST_F(Events, SaysWhyNoFileCanBeMade) {
  put("file", "");
  EXPECT_EQ(message_of<IoError>([&] { EventWriter writer(path("file")); }),
            path("file").string() + " cannot be written: Not a directory");
  EXPECT_SAYS(message_of<IoError>([&] { EventWriter writer("/proc/none"); }),
              "/proc/none cannot be written: ");
  EXPECT_SAYS(message_of<IoError>([&] { EventWriter writer("/proc"); }),
              "/proc/events.out.tfevents.");
}

/// What comes after the last step that counts, and what a killed process left behind it.
TEST_F(Events, AreCutAfterAStep) {
  std::string expected;
  std::filesystem::path file;
  {
    EventWriter writer(folder_);
    file = writer.path();
    for (std::int64_t step = 1; step <= 200; step += 50) {
      writer.scalar("train/loss", step, 1.5, 10);
      writer.scalar("train/lr", step, 2.5, 10);
      if (step == 101) expected = bytes_of(file);
    }
  }
  const std::string all = bytes_of(file);
  formats::cut_events(folder_, 1000);
  EXPECT_EQ(bytes_of(file), all) << "nothing is later";
  put(file.filename().string(), all + "half a record");
  formats::cut_events(folder_, 1000);
  EXPECT_EQ(bytes_of(file), all);
  formats::cut_events(folder_, 150);
  EXPECT_EQ(bytes_of(file), expected);
  formats::cut_events(folder_, 0);
  EXPECT_EQ(read_events(bytes_of(file)).size(), 1U) << "the version alone";
  for (std::size_t size = 0; size < all.size(); size += 7) {
    put(file.filename().string(), all.substr(0, size));
    formats::cut_events(folder_, 1000);
    EXPECT_TRUE(all.starts_with(bytes_of(file)));
    EXPECT_LE(bytes_of(file).size(), size);
  }
}

}  // namespace
}  // namespace fourfold::test
