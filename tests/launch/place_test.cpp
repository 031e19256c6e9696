// A rank's cores and threads under every launcher, from the variables and cores that it would find.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/place.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

namespace fourfold::launch {
namespace {

std::vector<int> cores(int first, int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

struct Case {
  const char* name;
  Variables variables;
  std::vector<int> allowed;
  std::vector<int> launcher;
  const char* cores;  ///< expected
  int threads;        ///< expected; 0 for no limit
  const char* remark = "";
};

Variables open_mpi(int rank, int size) {
  return {{"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(size)}};
}

/// As srun sets them for a task of the node `node`.
Variables slurm(const char* tasks_per_node, int node, int task, const char* bind,
                const Variables& more = {}) {
  Variables all = {{"SLURM_STEP_NUM_TASKS", "4"},
                   {"SLURM_STEP_TASKS_PER_NODE", tasks_per_node},
                   {"SLURM_NODEID", std::to_string(node)},
                   {"SLURM_LOCALID", std::to_string(task)},
                   {"SLURM_CPU_BIND", bind},
                   {"PMIX_RANK", "0"}};
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

Variables with(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

void expect(const std::vector<Case>& table) {
  for (const Case& one : table) {
    const Share share = share_of_host({one.variables, one.allowed, one.launcher, 8});
    EXPECT_EQ(ranges(share.cores), one.cores) << one.name;
    EXPECT_EQ(share.threads.value_or(0), one.threads) << one.name;
    if (*one.remark == '\0') {
      EXPECT_EQ(share.remark, "") << one.name;
    } else {
      EXPECT_NE(share.remark.find(one.remark), std::string::npos) << one.name << share.remark;
    }
  }
}

TEST(Place, UnderMpirun) {
  const auto all = cores(0, 8);
  const Variables bound = {{"OMPI_MCA_orte_bound_at_launch", "1"}};
  const Variables four_of_eight = {{"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "4"}};
  expect({
      {"first of two", open_mpi(0, 2), all, all, "0-3", 4},
      {"second of two", open_mpi(1, 2), all, all, "4-7", 4},
      {"two cores are left over", open_mpi(2, 3), all, all, "4,5", 2},
      {"as many as cores", open_mpi(7, 8), all, all, "7", 1},
      {"more than cores", open_mpi(8, 9), all, all, "0-7", 1},
      {"alone", open_mpi(0, 1), all, all, "0-7", 8},
      {"part of a machine", open_mpi(1, 2), cores(4, 4), cores(4, 4), "6,7", 2},
      {"more than cores of a part", open_mpi(1, 5), cores(4, 4), cores(4, 4), "4-7", 1},
      {"bound to a core", with(open_mpi(1, 2), bound), {1}, all, "1", 1},
      {"bound to four each", with(open_mpi(1, 2), bound), cores(4, 4), all, "4-7", 4},
      {"bound to half of the machine, four each", open_mpi(1, 8), cores(4, 4), all, "4-7", 1},
      {"bound, in a script", with(open_mpi(1, 2), bound), cores(4, 4), cores(4, 4), "4-7", 4},
      {"bound to half, in a script", with(open_mpi(1, 8), bound), cores(0, 4), cores(0, 4), "0-3",
       1},
      {"MPICH and Intel", four_of_eight, all, all, "4,5", 2},
      {"Intel has bound", four_of_eight, {4, 5}, all, "4,5", 2},
  });
}

TEST(Place, UnderSrun) {
  const auto all = cores(0, 8);
  const Variables two_each = {{"SLURM_CPUS_PER_TASK", "2"}};
  const Variables four_given = {{"SLURM_CPUS_ON_NODE", "4"}};
  const char* list = "quiet,mask_cpu:0x3,0xc,0x30,0xc0";
  expect({
      {"bound to its own", slurm("4", 0, 2, list), {4, 5}, all, "4,5", 2},
      {"two CPUs a task", slurm("4", 0, 2, list, two_each), {4, 5}, all, "4,5", 2},
      {"a CPU a task on a core of two",
       slurm("4", 0, 2, list, {{"SLURM_CPUS_PER_TASK", "1"}}),
       {4, 5},
       all,
       "4,5",
       1},
      {"all bound alike, room for all", slurm("2(x2)", 1, 1, "quiet,mask_cpu:0xf0"), cores(4, 4),
       all, "6,7", 2},
      {"overcommit on one core",
       slurm("4(x2)", 1, 3, "quiet,mask_cpu:0x1"),
       {0},
       all,
       "0",
       1,
       "4 ranks share 1 core (0) of the 8"},
      {"overcommit on two cores",
       slurm("4", 0, 3, "quiet,mask_cpu:0x3"),
       {0, 1},
       all,
       "0,1",
       1,
       "4 ranks share 2 cores (0,1) of the 8"},
      {"overcommit on all cores", slurm("9", 0, 8, "quiet,mask_cpu:0xff"), all, all, "0-7", 1},
      {"list starts again", slurm("4", 0, 3, "quiet,mask_cpu:0xf,0xf0"), cores(4, 4), all, "6,7",
       2},
      {"list with equals", slurm("3", 0, 1, "quiet,mask_cpu:0xf,0xf,0xf0"), cores(0, 4), all, "2,3",
       2},
      {"by cores of a map", slurm("2", 0, 1, "quiet,map_cpu:0,3"), {3}, all, "3", 1},
      {"by rank", slurm("2", 0, 1, "quiet,rank"), {1}, all, "1", 1},
      {"unbound", slurm("2,1", 0, 1, "quiet,none"), all, all, "4-7", 4},
      {"unbound and alone", slurm("2,1", 1, 0, "quiet,none"), all, all, "0-7", 8},
      {"unbound inside of a cgroup", slurm("2", 0, 1, "quiet,none"), cores(4, 4), all, "6,7", 2},
      {"unbound with a limit", slurm("2", 0, 1, "quiet,none", two_each), all, all, "4-7", 2},
      {"unbound on a shared node", slurm("2", 0, 1, "quiet,none", four_given), all, all, "0-7", 2},
      {"overcommit on a shared node", slurm("9", 0, 1, "quiet,none", four_given), all, all, "0-7",
       1},
      {"no plugin for binding", slurm("4", 0, 3, ""), all, all, "6,7", 2},
      {"what the job asked for", slurm("4", 0, 3, "", {{"SLURM_NTASKS_PER_NODE", "2"}}), all, all,
       "6,7", 2},
      {"older Slurm",
       {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS_PER_NODE", "2"}},
       all,
       all,
       "4-7",
       4},
      {"more tasks than the job asked for",
       {{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "7"}, {"SLURM_NTASKS_PER_NODE", "2"}},
       all,
       all,
       "0-7",
       0,
       "set OMP_NUM_THREADS"},
  });
}

TEST(Place, UnderMpirunInASlurmJob) {
  const auto all = cores(0, 8);
  // Beside mpirun on the first host, below the daemon that srun started on the others.
  const Variables script = {{"SLURM_LOCALID", "0"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
  const Variables daemon = slurm("1", 0, 0, "quiet,none", {{"SLURM_NTASKS_PER_NODE", "1"}});
  expect({
      {"first host", with(open_mpi(1, 2), script), all, all, "4-7", 4},
      {"other host", with(open_mpi(1, 2), daemon), all, all, "4-7", 4},
      {"other host, bound", with(open_mpi(1, 2), daemon), {1}, all, "1", 1},
      {"shared node", with(open_mpi(1, 2), {{"SLURM_CPUS_ON_NODE", "2"}}), all, all, "0-7", 1},
  });
  EXPECT_FALSE(local_place(script)) << "a script is no rank";
}

TEST(Place, Nonsense) {
  const auto all = cores(0, 8);
  const char* told = "does not tell how many ranks";
  expect({
      {"nothing told", {{"PMIX_RANK", "1"}}, all, all, "0-7", 0, told},
      {"nothing told, but limited", {{"OMP_NUM_THREADS", "2"}}, all, all, "0-7", 0},
      {"nothing told, but bound", {{"PMIX_RANK", "1"}}, {2, 3}, all, "2,3", 2},
      {"one core", {{"PMIX_RANK", "1"}}, {0}, {0}, "0", 0},
      {"rank beyond", open_mpi(8, 8), all, all, "0-7", 0, told},
      {"negative rank", open_mpi(-1, 8), all, all, "0-7", 0, told},
      {"negative size", open_mpi(0, -8), all, all, "0-7", 0, told},
      {"no size", open_mpi(0, 0), all, all, "0-7", 0, told},
      {"huge", open_mpi(2000000000, 2100000000), all, all, "0-7", 1},
      {"beyond an int",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "99999999999"}},
       all,
       all,
       "0-7",
       0,
       told},
      {"text",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "one"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", ""}},
       all,
       all,
       "0-7",
       0,
       told},
      {"node beyond the list", slurm("2(x3),1", 4, 0, ""), all, all, "0-7", 0, told},
      {"task beyond the list", slurm("2(x3),1", 3, 1, ""), all, all, "0-7", 0, told},
      {"broken list", slurm("2(x3", 0, 1, ""), all, all, "0-7", 0, told},
      {"huge list", slurm("2(x2000000000),2(x2000000000)", 7, 1, ""), all, all, "4-7", 4},
      {"empty list of masks", slurm("2", 0, 1, "quiet,mask_cpu:"), all, all, "4-7", 4},
      {"no CPU a task", slurm("2", 0, 1, "", {{"SLURM_CPUS_PER_TASK", "0"}}), all, all, "4-7", 4},
      {"no CPU on the node", slurm("2", 0, 1, "", {{"SLURM_CPUS_ON_NODE", "-2"}}), all, all, "4-7",
       4},
      {"no core at all", open_mpi(1, 2), {}, {}, "", 1},
  });
}

TEST(Place, ReadsSlurmsLists) {
  const auto size = [](const char* list, int node) {
    const auto place = local_place(slurm(list, node, 0, ""));
    return place ? place->size : 0;
  };
  EXPECT_EQ(size("2(x3),1", 0), 2);
  EXPECT_EQ(size("2(x3),1", 2), 2);
  EXPECT_EQ(size("2(x3),1", 3), 1);
  EXPECT_EQ(size("4,3(x2),16", 1), 3);
  EXPECT_EQ(size("4,3(x2),16", 3), 16);
  EXPECT_EQ(size("8", 0), 8);
}

TEST(Place, SharesOfAHostDoNotOverlap) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    std::vector<int> taken(8);
    for (int rank = 0; rank < ranks; ++rank) {
      const Share share = share_of_host({open_mpi(rank, ranks), cores(0, 8), cores(0, 8), 8});
      EXPECT_EQ(static_cast<int>(share.cores.size()), 8 / ranks);
      for (const int core : share.cores) EXPECT_EQ(taken[static_cast<std::size_t>(core)]++, 0);
    }
  }
}

}  // namespace
}  // namespace fourfold::launch
