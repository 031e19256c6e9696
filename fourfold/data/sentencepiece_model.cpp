// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/sentencepiece_model.hpp"

#include <cstdint>

namespace fourfold::data {

namespace {

// The numbers of the fields in SentencePiece's sentencepiece_model.proto.
constexpr std::uint64_t kTrainerSpec = 2;
constexpr std::uint64_t kNormalizerSpec = 3;
constexpr std::uint64_t kDenormalizerSpec = 5;
constexpr std::uint64_t kModelType = 3;
constexpr std::uint64_t kByteFallback = 35;
constexpr std::uint64_t kReplacements = 2;
constexpr std::uint64_t kAddDummyPrefix = 3;
constexpr std::uint64_t kRemoveExtraSpaces = 4;
constexpr std::uint64_t kEscapeSpaces = 5;
constexpr std::uint64_t kBpe = 2;

/// One field of a message in protobuf's encoding: a number or a piece of text.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view text;
};

/// Reads the fields of a message one by one.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  /// Returns false at the end, and from then on when the message is damaged.
  bool next(Field& field) {
    if (rest_.empty()) return false;
    field = Field();
    std::uint64_t key = 0;
    if (!take_number(key)) return false;
    field.number = key >> 3U;
    switch (key & 7U) {
      case 0:
        return take_number(field.value);
      case 1:
        return take_text(8, field.text);
      case 2: {
        std::uint64_t size = 0;
        return take_number(size) && take_text(size, field.text);
      }
      case 5:
        return take_text(4, field.text);
      default:
        return fail();
    }
  }

  bool damaged() const { return damaged_; }

 private:
  bool fail() {
    damaged_ = true;
    rest_ = {};
    return false;
  }

  bool take_number(std::uint64_t& number) {
    number = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      number |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return true;
    }
    return fail();
  }

  bool take_text(std::uint64_t size, std::string_view& text) {
    if (size > rest_.size()) return fail();
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

/// The relevant properties of a model, with protobuf's defaults for what the file leaves out.
struct Traits {
  bool damaged = false;
  bool bpe = false;
  bool byte_fallback = false;
  bool replaces = false;
  bool adds_prefix = true;
  bool removes_spaces = true;
  bool escapes_spaces = true;
};

void read_trainer(std::string_view message, Traits& traits) {
  Fields fields(message);
  for (Field field; fields.next(field);) {
    if (field.number == kModelType) traits.bpe = field.value == kBpe;
    if (field.number == kByteFallback) traits.byte_fallback = field.value != 0;
  }
  traits.damaged |= fields.damaged();
}

void read_normalizer(std::string_view message, Traits& traits) {
  Fields fields(message);
  for (Field field; fields.next(field);) {
    if (field.number == kReplacements && !field.text.empty()) traits.replaces = true;
    if (field.number == kAddDummyPrefix) traits.adds_prefix = field.value != 0;
    if (field.number == kRemoveExtraSpaces) traits.removes_spaces = field.value != 0;
    if (field.number == kEscapeSpaces) traits.escapes_spaces = field.value != 0;
  }
  traits.damaged |= fields.damaged();
}

Traits read_traits(std::string_view model) {
  Traits traits;
  Fields fields(model);
  for (Field field; fields.next(field);) {
    if (field.number == kTrainerSpec) read_trainer(field.text, traits);
    if (field.number == kNormalizerSpec) read_normalizer(field.text, traits);
    if (field.number == kDenormalizerSpec) {
      Traits reverse;
      read_normalizer(field.text, reverse);
      traits.replaces |= reverse.replaces;
    }
  }
  traits.damaged |= fields.damaged();
  return traits;
}

}  // namespace

std::string why_unusable(std::string_view model) {
  const Traits traits = read_traits(model);
  if (model.empty() || traits.damaged) return "it is damaged or no SentencePiece model";
  if (!traits.bpe) return "it is not a BPE";
  if (!traits.byte_fallback) return "it cannot write unknown characters as bytes (byte_fallback)";
  if (traits.replaces) return "it replaces characters (its normalisation is not \"identity\")";
  if (traits.adds_prefix) return "it puts a space before the text (add_dummy_prefix)";
  if (traits.removes_spaces) return "it removes spaces (remove_extra_whitespaces)";
  if (!traits.escapes_spaces) return "it does not escape spaces (escape_whitespaces)";
  return "";
}

}  // namespace fourfold::data
