// JSON for the files of this library: writing strings, and reading untrusted texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fourfold/formats/refuse_file.hpp"

namespace fourfold::formats {

/// The text as a JSON string with its quotes. Throws InvariantError unless it is UTF-8.
std::string json_string(std::string_view text);

/// Receives the events of a parser and refuses each event that a derived class does not expect. So
/// a hostile text costs no more memory than the expected content.
class StrictSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// `path` is for messages.
  explicit StrictSax(std::filesystem::path path) : path_(std::move(path)) {}

  /// Throws ConfigError unless `text` is one JSON object, and whatever the handlers throw.
  void parse(std::string_view text);

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }
  bool string(string_t&) override { unexpected("a string"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool start_object(std::size_t) override { unexpected("an object"); }
  bool start_array(std::size_t) override { unexpected("a list"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override;

 protected:
  [[noreturn]] void refuse(std::string_view what) const { refuse_file(path_, what); }

  /// The position of the parser, for messages: "the shape of tensor 'w'".
  virtual std::string place() const = 0;

 private:
  [[noreturn]] void unexpected(std::string_view value) const;

  std::filesystem::path path_;
};

}  // namespace fourfold::formats
