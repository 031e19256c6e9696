// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/remarks.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "fourfold/base/text.hpp"

namespace fourfold::launch {

namespace {

constexpr std::size_t kLongestRemark = 60;  // in lines

bool is_rule(const std::string& line) {
  const std::string_view text = trim(line);
  return text.size() >= 60 && text.find_first_not_of('-') == std::string_view::npos;
}

/// Whether this is a line that Open MPI writes while a job ends: "[host:123] [[1,0],0]
/// ORTE_ERROR_LOG: ...", "[host:123] Read -1, expected 200000, errno = 3" when a peer's memory is
/// gone, or one of two about remarks that it has combined. Or that it passes a signal on.
bool is_log(const std::string& line) {
  if (line.starts_with("mpirun: Forwarding signal ")) return true;
  int end = 0;  // of "[host:123] "
  std::sscanf(line.c_str(), "[%*[^]:]:%*d] %n", &end);
  if (end == 0) return false;
  const std::string rest = line.substr(static_cast<std::size_t>(end));
  constexpr std::array<std::string_view, 4> kSigns = {
      "Read -1, expected ", "ORTE_ERROR_LOG", " sent help message ",
      "Set MCA parameter \"orte_base_help_aggregate\""};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return rest.find(sign) != std::string::npos; });
}

/// Whether the text begins like what mpirun writes when a job ends badly.
bool is_remark(const std::string& text) {
  constexpr std::array<std::string_view, 6> kSigns = {
      "mpirun noticed that", "mpirun detected that", "MPI_ABORT was invoked",
      "Primary job  termin", "a process has exited", "mpirun has exited due to"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return text.find(sign) != std::string::npos; });
}

std::optional<Death> find_death(const std::string& text) {
  Death death;
  std::array<char, 256> host{};
  const auto killed = text.find("process rank ");
  if (killed != std::string::npos &&
      std::sscanf(text.c_str() + killed,
                  "process rank %d with PID %*d on node %255s exited on signal %d", &death.rank,
                  host.data(), &death.signal) == 3) {
    death.host = host.data();
    return death;
  }
  const auto exited = text.find("Process name: [[");
  if (exited != std::string::npos &&
      std::sscanf(text.c_str() + exited, "Process name: [[%*d,%*d],%d] Exit code: %d", &death.rank,
                  &death.status) == 2) {
    return death;
  }
  return std::nullopt;
}

}  // namespace

std::string to_string(const Death& death) {
  const std::string where = death.host.empty() ? "" : " on " + death.host;
  if (death.signal == 0) {
    return concat("rank ", death.rank, where, " ended with status ", death.status);
  }
  return concat("rank ", death.rank, where, " was killed by signal ", death.signal, " (",
                strsignal(death.signal), ")");
}

std::string RemarkFilter::feed(std::string_view text) {
  std::string shown;
  for (;;) {
    const auto end = text.find('\n');
    partial_ += text.substr(0, end);
    if (end == std::string_view::npos) return shown;
    text.remove_prefix(end + 1);
    shown += take_line(std::exchange(partial_, {}) + "\n");
  }
}

std::string RemarkFilter::flush_line() {
  const bool may_be_remark =
      !block_.empty() || partial_.starts_with('-') || partial_.starts_with('[');
  return may_be_remark ? std::string() : std::exchange(partial_, {});
}

std::string RemarkFilter::flush() {
  std::string shown = end_block();
  return shown + std::exchange(partial_, {});
}

std::string RemarkFilter::take_line(std::string line) {
  if (is_log(line)) return {};
  const bool rule = is_rule(line);
  if (block_.empty() && !rule) return line;
  block_.push_back(std::move(line));
  if (block_.size() == 1 || (!rule && block_.size() < kLongestRemark)) return {};
  return end_block();
}

std::string RemarkFilter::end_block() {
  std::string text = join(std::exchange(block_, {}), "");
  if (!is_remark(text)) return text;
  if (!death_) death_ = find_death(text);
  return {};
}

}  // namespace fourfold::launch
