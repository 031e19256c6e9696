// Removes mpirun's own remarks from the text that it forwards from the ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::launch {

/// A rank that ended badly, as mpirun reports it.
struct Death {
  int rank = -1;
  std::string host;
  int signal = 0;  ///< 0: the rank exited with `status`
  int status = 0;
  bool operator==(const Death&) const = default;
};

/// "rank 2 on n1 was killed by signal 9 (Killed)".
std::string to_string(const Death& death);

/// mpirun's remarks are enclosed by two lines of dashes. A block that does not look like such a
/// remark is passed on unchanged, and so is all other text, line by line.
class RemarkFilter {
 public:
  /// Takes a piece of the stream, and returns what can be shown so far.
  std::string feed(std::string_view text);
  /// Must be called when the stream pauses. Returns the incomplete last line, unless a remark may
  /// begin there.
  std::string flush_line();
  /// Must be called when the stream has ended. Returns all text that was held back.
  std::string flush();

  const std::optional<Death>& death() const { return death_; }  ///< the first one

 private:
  std::string take_line(std::string line);
  std::string end_block();

  std::string partial_;             // a line without its end
  std::vector<std::string> block_;  // lines since a line of dashes
  std::optional<Death> death_;
};

}  // namespace fourfold::launch
