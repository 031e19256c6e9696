// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/start.hpp"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/launcher.hpp"
#include "fourfold/tensor/gemm_rate.hpp"
#include "fourfold/train/device.hpp"

namespace fourfold::app {

namespace {

/// The command line. The process that starts the ranks sets this variable.
constexpr const char* kCommand = "FOURFOLD_COMMAND";

/// The word, quoted for a shell.
std::string quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string joined(char** argv) {
  std::vector<std::string> words;
  for (; *argv != nullptr; ++argv) words.push_back(quoted(*argv));
  return join(words, " ");
}

}  // namespace

void announce_command(char** argv) {
  setenv(kCommand, joined(argv).c_str(), 1);
}

std::string command_line(char** argv) {
  const char* told = std::getenv(kCommand);
  return launch::is_rank() && told != nullptr ? told : joined(argv);
}

train::Facts versions() {
  return {{"Fourfold", FOURFOLD_VERSION},
          {"libtorch", tensor::libtorch_version()},
          {"BLAS", tensor::blas_library()},
          {"MPI", comm::mpi::library_version()}};
}

std::string crowding(const config::DeviceConfig& device) {
  const auto place = launch::local_place();
  if (!place || train::device_rates(device).any()) return "";
  // Another launcher than ours may have bound this rank to its own share of the cores. Then only
  // the number of all cores is known.
  const bool ours = std::getenv(kCommand) != nullptr;
  const int cores = ours ? launch::usable_cores() : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (place->size <= cores) return "";
  return concat(
      place->size, " ranks share ", cores, cores == 1 ? " core" : " cores",
      ": they take turns, so the run is slower than with a core for each of them, and its "
      "times do not tell how fast that would be");
}

}  // namespace fourfold::app
