// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sched.h>
#include <string_view>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/launch/blas_core.hpp"
#include "fourfold/launch/launcher.hpp"
#include "fourfold/launch/place.hpp"

namespace fourfold::launch {

namespace {

std::optional<std::int64_t> variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? parse_int(text) : std::nullopt;
}

Variables all_variables() {
  Variables found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t end = text.find('=');
    if (end != std::string_view::npos) found.emplace(text.substr(0, end), text.substr(end + 1));
  }
  return found;
}

std::vector<int> cores_of(pid_t task) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(task, sizeof set, &set) != 0) return {};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int online_cores() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

Share own_share() {
  return share_of_host({all_variables(), cores_of(0), cores_of(getppid()), online_cores()});
}

void bind_all_threads(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  // Libraries may have started threads already.
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto id = parse_int(task.path().filename().string());
    if (id) sched_setaffinity(static_cast<pid_t>(*id), sizeof set, &set);
  }
}

Binding bind() {
  const Share share = own_share();
  if (share.cores != cores_of(0)) bind_all_threads(share.cores);
  const std::vector<int> bound = cores_of(0);
  const bool any = static_cast<int>(bound.size()) == online_cores();
  return {any ? "any" : ranges(bound), share.remark};
}

std::vector<std::pair<std::string, std::string>> variables_for(int threads) {
  std::vector<std::pair<std::string, std::string>> variables;
  // OMP_NUM_THREADS also applies to OpenBLAS, but not the reverse.
  const char* chosen = std::getenv("OMP_NUM_THREADS");
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    if (std::getenv(name) != nullptr) continue;
    variables.emplace_back(name, chosen != nullptr ? chosen : std::to_string(threads));
  }
  return variables;
}

}  // namespace

int usable_cores() {
  return std::max(1, static_cast<int>(cores_of(0).size()));
}

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

bool is_rank() {
  constexpr std::array kNames = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; }) ||
         variable("SLURM_STEP_NUM_TASKS").value_or(1) > 1;  // set inside srun only
}

std::optional<LocalPlace> local_place() {
  return local_place(all_variables());
}

std::vector<std::pair<std::string, std::string>> thread_variables(int ranks_on_host) {
  return variables_for(std::max(1, usable_cores() / ranks_on_host));
}

int kernel_threads() {
  return static_cast<int>(variable("OPENBLAS_NUM_THREADS").value_or(usable_cores()));
}

void ensure_library_variables(char** argv) {
  const Share share = is_rank() ? own_share() : Share();
  auto variables = share.threads ? variables_for(*share.threads)
                                 : std::vector<std::pair<std::string, std::string>>();
  if (const std::string core = wanted_blas_core(); !core.empty()) {
    variables.emplace_back("OPENBLAS_CORETYPE", core);
  }
  if (variables.empty()) return;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv(this_program().c_str(), argv);
  throw Error("the program could not start itself again with the variables of its libraries set");
}

const Binding& bind_to_cores() {
  static const Binding binding = bind();
  return binding;
}

}  // namespace fourfold::launch
