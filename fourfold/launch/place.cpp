// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/place.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "fourfold/base/text.hpp"

namespace fourfold::launch {

namespace {

/// The number of ranks that have the same cores as this one, and its number among them.
using Sharers = LocalPlace;

std::optional<std::string> text_of(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found != variables.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<int> as_int(std::string_view text) {
  const auto value = parse_int(text);
  if (!value || *value < 0 || *value > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> number_of(const Variables& variables, const char* name) {
  const auto text = text_of(variables, name);
  return text ? as_int(*text) : std::nullopt;
}

/// Entry `index` of a list in Slurm's format: "2(x3),1" is 2, 2, 2, 1.
std::optional<int> entry_of(std::string_view list, int index) {
  int passed = 0;
  for (const std::string& piece : split(list, ',')) {
    const std::size_t open = piece.find("(x");
    const auto value = as_int(std::string_view(piece).substr(0, open));
    std::optional<int> times = 1;
    if (open != std::string::npos) {
      if (piece.back() != ')') return std::nullopt;
      times = as_int(std::string_view(piece).substr(open + 2, piece.size() - open - 3));
    }
    if (!value || !times) return std::nullopt;
    if (index - passed < *times) return value;
    passed += *times;
  }
  return std::nullopt;
}

std::optional<LocalPlace> valid(std::optional<int> rank, std::optional<int> size) {
  if (!rank || !size || *rank >= *size) return std::nullopt;
  return LocalPlace{*rank, *size};
}

/// Whether srun started this process. In a batch script most of Slurm's variables are set as well.
bool in_slurm_step(const Variables& variables) {
  return number_of(variables, "SLURM_STEP_NUM_TASKS").has_value();
}

std::optional<LocalPlace> slurm_place(const Variables& variables) {
  if (!in_slurm_step(variables)) return std::nullopt;
  const auto rank = number_of(variables, "SLURM_LOCALID");
  const int node = number_of(variables, "SLURM_NODEID").value_or(0);
  // The values of the job count only if they fit: a step may have more tasks than the job asked
  // for.
  for (const char* name :
       {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const bool one_for_all = std::string_view(name) == "SLURM_NTASKS_PER_NODE";
    const auto list = text_of(variables, name);
    if (!list) continue;
    if (const auto place = valid(rank, entry_of(*list, one_for_all ? 0 : node))) return place;
  }
  return std::nullopt;
}

/// The tasks of the host that srun has bound to the same cores as this one. SLURM_CPU_BIND is like
/// "quiet,mask_cpu:0x3,0xc": task i has the entry i, and a list that is too short is repeated.
std::optional<Sharers> slurm_sharers(const Variables& variables, const LocalPlace& place) {
  const auto bind = text_of(variables, "SLURM_CPU_BIND");
  if (!bind) return std::nullopt;
  for (const std::string_view type : {"mask_cpu:", "map_cpu:"}) {
    const std::size_t at = bind->find(type);
    if (at == std::string::npos) continue;
    const std::vector<std::string> list =
        split(std::string_view(*bind).substr(at + type.size()), ',');
    if (list.empty()) return std::nullopt;
    const int length = static_cast<int>(list.size());
    const std::string& own = list[static_cast<std::size_t>(place.rank % length)];
    Sharers sharers{0, 0};
    for (int entry = 0; entry < std::min(length, place.size); ++entry) {
      if (list[static_cast<std::size_t>(entry)] != own) continue;
      // The tasks with this entry are entry, entry + length, ...
      sharers.size += (place.size - entry - 1) / length + 1;
      if (entry < place.rank) sharers.rank += (place.rank - entry - 1) / length + 1;
    }
    return sharers;
  }
  if (bind->find("none") != std::string::npos) return place;
  return std::nullopt;
}

bool narrower(const std::vector<int>& cores, const std::vector<int>& than) {
  return cores.size() < than.size() &&
         std::includes(than.begin(), than.end(), cores.begin(), cores.end());
}

/// Whether the launcher has bound this rank to cores that other ranks of the host may not have.
bool bound_by_launcher(const Surroundings& all) {
  // Open MPI's variable also counts where a script runs between mpirun and the rank.
  return narrower(all.allowed, all.launcher) ||
         all.variables.contains("OMPI_MCA_orte_bound_at_launch");
}

/// The number of cores that Slurm has given the job, if it is less than the process may use: the
/// other cores may belong to other jobs.
std::optional<int> cores_of_job(const Surroundings& all) {
  const auto cores = number_of(all.variables, "SLURM_CPUS_ON_NODE");
  if (!cores || *cores < 1 || *cores >= static_cast<int>(all.allowed.size())) return std::nullopt;
  return cores;
}

Share divide(const Surroundings& all, const Sharers& sharers) {
  Share share{all.allowed, 1, ""};
  const int cores = static_cast<int>(all.allowed.size());
  if (const auto given = cores_of_job(all)) {
    share.threads = std::max(1, *given / sharers.size);
  } else if (sharers.size <= cores) {
    const int each = cores / sharers.size;
    const auto first = all.allowed.begin() + std::ptrdiff_t{sharers.rank} * each;
    share.cores.assign(first, first + each);
    share.threads = each;
  } else if (narrower(all.allowed, all.launcher)) {
    share.remark =
        concat(sharers.size, " ranks share ", cores, cores == 1 ? " core" : " cores", " (",
               ranges(all.allowed), ") of the ", all.launcher.size(),
               " of their host, as their launcher has bound them; ask it for more cores, such as "
               "with srun's --cpus-per-task");
  }
  return share;
}

/// The share of a rank that was bound together with an unknown number of others: a fair number of
/// threads.
Share keep(const Surroundings& all, int ranks) {
  const int own = std::max(1, static_cast<int>(all.allowed.size()));
  const bool known = narrower(all.allowed, all.launcher);
  const int fair = (known ? static_cast<int>(all.launcher.size()) : all.online) / ranks;
  return {all.allowed, std::clamp(fair, 1, own), ""};
}

}  // namespace

std::optional<LocalPlace> local_place(const Variables& variables) {
  constexpr std::array<std::pair<const char*, const char*>, 2> kNames = {
      {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
       {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}}};
  for (const auto& [rank, size] : kNames) {
    if (variables.contains(rank)) {
      return valid(number_of(variables, rank), number_of(variables, size));
    }
  }
  return slurm_place(variables);
}

Share share_of_host(const Surroundings& all) {
  const auto place = local_place(all.variables);
  if (!place) {
    Share share{all.allowed, std::nullopt, ""};
    if (bound_by_launcher(all)) {
      share.threads = std::max(1, static_cast<int>(all.allowed.size()));
    } else if (all.allowed.size() > 1 && !all.variables.contains("OMP_NUM_THREADS")) {
      share.remark =
          "the launcher does not tell how many ranks a host has, so that ranks are not bound to "
          "cores and compute with as many threads as there are; set OMP_NUM_THREADS to a rank's "
          "share of the cores";
    }
    return share;
  }
  const bool by_srun = in_slurm_step(all.variables) &&
                       !all.variables.contains("OMPI_COMM_WORLD_LOCAL_RANK") &&
                       !all.variables.contains("MPI_LOCALRANKID");
  const auto told = by_srun ? slurm_sharers(all.variables, *place) : std::nullopt;
  Share share = told                     ? divide(all, *told)
                : bound_by_launcher(all) ? keep(all, place->size)
                                         : divide(all, *place);
  const auto wanted = number_of(all.variables, "SLURM_CPUS_PER_TASK");
  if (by_srun && wanted && *wanted > 0) share.threads = std::min(*share.threads, *wanted);
  return share;
}

}  // namespace fourfold::launch
