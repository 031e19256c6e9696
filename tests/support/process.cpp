// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

#include "fourfold/base/check.hpp"

namespace fourfold::test {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file that goes with its last descriptor.
int temporary_file() {
  std::FILE* file = std::tmpfile();
  FOURFOLD_CHECK(file != nullptr);
  return dup(fileno(file));
}

std::string read_back(int file) {
  std::string text;
  std::array<char, 4096> buffer{};
  lseek(file, 0, SEEK_SET);
  for (ssize_t size = 0; (size = read(file, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  close(file);
  return text;
}

}  // namespace

Outcome run_program(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment,
                    const std::function<void(pid_t)>& meanwhile) {
  const int out = temporary_file();
  const int err = temporary_file();
  const Seconds start = now();
  const pid_t child = fork();
  FOURFOLD_CHECK(child >= 0);
  if (child == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  if (meanwhile) meanwhile(child);
  int status = 0;
  FOURFOLD_CHECK(waitpid(child, &status, 0) == child);
  const Seconds took = now() - start;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_back(out),
          read_back(err), took};
}

std::vector<pid_t> processes_with_argument(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto id = parse_int(entry.path().filename().string());
    if (!id || *id == getpid()) continue;
    // Arguments end with a zero byte each; a zombie has none.
    const std::string arguments = '\0' + read_file(entry.path() / "cmdline");
    if (arguments.find('\0' + word + '\0') != std::string::npos) {
      found.push_back(static_cast<pid_t>(*id));
    }
  }
  return found;
}

std::vector<std::string> lines(const std::string& text) {
  auto pieces = split(text, '\n');
  if (!pieces.empty() && pieces.back().empty()) pieces.pop_back();
  return pieces;
}

}  // namespace fourfold::test
