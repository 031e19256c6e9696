// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/console.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fourfold/launch/environment.hpp"

namespace fourfold::app {

namespace {

/// The number of columns of the launcher's terminal. The launcher sets this variable.
constexpr const char* kColumns = "FOURFOLD_TERMINAL_COLUMNS";

int terminal_columns() {
  constexpr int kUsual = 80;
  if (const char* told = std::getenv(kColumns)) return std::max(kUsual / 2, std::atoi(told));
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kUsual;
}

}  // namespace

bool on_terminal() {
  // mpirun gives every rank a terminal of its own, even if its output goes elsewhere.
  if (launch::is_rank()) return std::getenv(kColumns) != nullptr;
  return isatty(STDOUT_FILENO) == 1;
}

void announce_terminal() {
  if (isatty(STDOUT_FILENO) == 1) setenv(kColumns, std::to_string(terminal_columns()).c_str(), 1);
}

train::Console make_console() {
  const bool lively = on_terminal();
  // When the last copy is destroyed, a line that was only shown is removed.
  auto shown = std::shared_ptr<bool>(new bool(false), [](bool* flag) {
    if (*flag) std::fputs("\r\033[K", stdout);
    std::fflush(stdout);
    delete flag;
  });
  const auto clear = [shown] {
    if (*shown) std::fputs("\r\033[K", stdout);
    *shown = false;
  };
  train::Console console;
  console.lively = lively;
  console.say = [clear](const std::string& line) {
    clear();
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  console.show = [clear, shown, lively](const std::string& line) {
    if (!lively) return;
    clear();
    // A line that wraps could not be removed again.
    const auto columns = static_cast<std::size_t>(terminal_columns());
    std::fputs(line.substr(0, columns - 1).c_str(), stdout);
    std::fflush(stdout);
    *shown = true;
  };
  return console;
}

}  // namespace fourfold::app
