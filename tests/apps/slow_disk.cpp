// A disk that takes its time, for tests: loaded before a program (LD_PRELOAD), it makes the first
// write to a model's file last SLOW_DISK_SECONDS.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace {

bool is_model(int file) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  return readlink(link.data(), path.data(), path.size() - 1) > 0 &&
         std::strstr(path.data(), "model.safetensors") != nullptr;
}

}  // namespace

extern "C" ssize_t write(int file, const void* data, size_t size) {
  static const auto real =
      reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(dlsym(RTLD_NEXT, "write"));
  static const char* seconds = std::getenv("SLOW_DISK_SECONDS");
  static bool slept = false;
  if (seconds != nullptr && !slept && is_model(file)) {
    slept = true;
    sleep(static_cast<unsigned>(std::atoi(seconds)));
  }
  return real(file, data, size);
}
