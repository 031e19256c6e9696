// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sched.h>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/launch/launcher.hpp"

namespace fourfold::launch {

namespace {

std::optional<int> variable(const char* name) {
  const char* text = std::getenv(name);
  const auto value = text != nullptr ? parse_int(text) : std::nullopt;
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
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
         variable("SLURM_STEP_NUM_TASKS").value_or(1) > 1;  // inside srun only
}

std::optional<LocalPlace> local_place() {
  constexpr std::array<std::pair<const char*, const char*>, 3> kNames = {
      {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
       {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
       {"SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}}};
  for (const auto& [rank_name, size_name] : kNames) {
    const auto rank = variable(rank_name);
    const auto size = variable(size_name);
    if (rank && size) return LocalPlace{*rank, *size};
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> thread_variables(int ranks_on_host) {
  const std::string threads = std::to_string(std::max(1, usable_cores() / ranks_on_host));
  std::vector<std::pair<std::string, std::string>> variables;
  // Of the two libraries OpenMP's variable also counts for the other, but not the reverse.
  const char* chosen = std::getenv("OMP_NUM_THREADS");
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    if (std::getenv(name) == nullptr) variables.emplace_back(name, chosen ? chosen : threads);
  }
  return variables;
}

int kernel_threads() {
  return variable("OPENBLAS_NUM_THREADS").value_or(usable_cores());
}

void ensure_thread_variables(char** argv) {
  const auto place = local_place();
  if (!place) return;
  const auto variables = thread_variables(place->size);
  if (variables.empty()) return;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv(this_program().c_str(), argv);
  throw Error("the program could not start itself again with its number of threads set");
}

std::string bind_to_cores() {
  const auto place = local_place();
  const std::vector<int> cores = cores_of(0);
  const int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const bool free = static_cast<int>(cores.size()) == online;
  if (place && free && place->size > 1 && place->size <= online) {
    const int share = online / place->size;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < share; ++i) {
      CPU_SET(static_cast<std::size_t>(cores[static_cast<std::size_t>(place->rank * share + i)]),
              &set);
    }
    // Libraries may have started threads already.
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const auto id = parse_int(task.path().filename().string());
      if (id) sched_setaffinity(static_cast<pid_t>(*id), sizeof set, &set);
    }
  }
  const std::vector<int> bound = cores_of(0);
  return static_cast<int>(bound.size()) == online ? "any" : ranges(bound);
}

}  // namespace fourfold::launch
