// Takes mpirun's own remarks out of the text that it forwards from the ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::launch {

/// A rank that ended badly, as mpirun tells it.
struct Death {
  int rank = -1;
  std::string host;
  int signal = 0;  ///< 0: it exited with `status`
  int status = 0;
  bool operator==(const Death&) const = default;
};

/// "rank 2 on n1 was killed by signal 9 (Killed)".
std::string to_string(const Death& death);

/// mpirun's remarks stand between two lines of dashes. A block that does not sound like one of them
/// passes through unchanged, as does everything else, line by line.
class RemarkFilter {
 public:
  /// Takes a piece of the stream; returns what is to be shown of it so far.
  std::string feed(std::string_view text);
  /// The stream pauses: returns the line that it is in the middle of, unless a remark may begin
  /// there.
  std::string flush_line();
  /// The stream has ended: returns all that was held back.
  std::string flush();

  const std::optional<Death>& death() const { return death_; }  ///< the first one

 private:
  std::string take_line(std::string line);
  std::string end_block();

  std::string partial_;             // a line without its end
  std::vector<std::string> block_;  // from a line of dashes on
  std::optional<Death> death_;
};

}  // namespace fourfold::launch
