// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/resume.hpp"

#include <chrono>
#include <fstream>
#include <thread>

namespace fourfold::test {

std::vector<std::string> with_errors_in(const std::string& file,
                                        const std::vector<std::string>& command) {
  std::vector<std::string> all = {"sh", "-c", "file=$1; shift; exec \"$@\" 2>\"$file\"", "sh",
                                  file};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

bool wait_for_steps(const Workspace& work, const std::string& name, std::size_t steps) {
  for (int i = 0; i < 6000; ++i) {
    if (lines(work.read(name + "/metrics.jsonl")).size() > steps) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

bool has_ended(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  std::string number, name, state;
  return !(file >> number >> name >> state) || state == "Z";
}

}  // namespace fourfold::test
