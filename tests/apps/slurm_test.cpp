// Jobs on a real Slurm of two hosts with two cores each, for which scripts/slurm.sh starts this
// program: where tasks run, what they compute, and how jobs end.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

/// A line of rank_program's "print".
struct Rank {
  int rank = -1;
  std::string host;
  std::string cores;
  int threads = 0;
};

class Slurm : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SLURM_CONF") == nullptr) {
      GTEST_SKIP() << "there is no Slurm; start it with scripts/slurm.sh --hosts 2 --cores 2 -- "
                      "slurm_test";
    }
    // The number of threads is the program's to choose here.
    unsetenv("OMP_NUM_THREADS");
    unsetenv("OPENBLAS_NUM_THREADS");
  }

  /// A job that a case has left behind must not make the others wait.
  void TearDown() override {
    if (std::getenv("SLURM_CONF") != nullptr) run_program({"scancel", "--user=root"});
  }

  /// All cores of a host, as a rank that may use any of them tells.
  static std::string whole_host() { return sysconf(_SC_NPROCESSORS_ONLN) == 2 ? "any" : "0,1"; }

  static std::vector<Rank> ranks_of(const std::string& out) {
    std::vector<Rank> ranks;
    for (const std::string& line : lines(out)) {
      std::istringstream words(line);
      Rank one;
      std::string skip;
      int size = 0;
      words >> skip >> one.rank >> skip >> size >> skip >> one.host >> skip >> one.cores >> skip >>
          one.threads;
      EXPECT_TRUE(words) << line;
      one.host = one.host.substr(0, one.host.find(','));
      ranks.push_back(one);
    }
    std::sort(ranks.begin(), ranks.end(),
              [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
    for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i].rank, static_cast<int>(i));
    return ranks;
  }

  /// What the ranks print that are started by these words, and rank 0's remark if there is one.
  static std::vector<Rank> places(std::vector<std::string> launcher,
                                  std::string* remark = nullptr) {
    launcher.insert(launcher.end(), {RANK_PROGRAM, "print"});
    const Outcome outcome = run_program(launcher);
    EXPECT_EQ(outcome.status, 0) << join(launcher, " ") << '\n' << outcome.err;
    std::string remarks;
    for (const std::string& line : lines(outcome.err)) {
      if (line.starts_with("rank_program: ")) remarks += line + '\n';
    }
    if (remark != nullptr) {
      *remark = remarks;
    } else {
      EXPECT_EQ(remarks, "") << join(launcher, " ");
    }
    return ranks_of(outcome.out);
  }

  static void expect_cores_of_their_own(const std::vector<Rank>& ranks, const std::string& what) {
    ASSERT_EQ(ranks.size(), 4U) << what;
    std::map<std::string, std::set<std::string>> cores;
    for (const Rank& one : ranks) {
      cores[one.host].insert(one.cores);
      EXPECT_EQ(one.threads, 1) << what << ", rank " << one.rank;
    }
    const std::set<std::string> both = {"0", "1"};
    EXPECT_EQ(cores["n0"], both) << what;
    EXPECT_EQ(cores["n1"], both) << what;
  }

  /// The state of a job, as in "RUNNING".
  static std::string state(const std::string& job) {
    const Outcome shown = run_program({"scontrol", "show", "job", job});
    const std::string key = "JobState=";
    const std::size_t at = shown.out.find(key);
    if (at == std::string::npos) return shown.err;
    return shown.out.substr(at + key.size(), shown.out.find(' ', at) - at - key.size());
  }

  static bool becomes_true(const std::function<bool()>& condition, Seconds limit) {
    for (const Seconds start = now(); now() - start < limit; usleep(100000)) {
      if (condition()) return true;
    }
    return condition();
  }

  /// Submits this script on two tasks a host; it writes to job.txt. Returns the job's number.
  std::string submit(const std::string& script) const {
    work_.write("job.sh", concat("#!/bin/sh\n", script, "\n"));
    const Outcome submitted = run_program({"sbatch", "--parsable", "-N2", "-n4", "-t", "10", "-o",
                                           work_.path("job.txt"), work_.path("job.sh")});
    EXPECT_EQ(submitted.status, 0) << submitted.err;
    return std::string(trim(submitted.out));
  }

  /// Whether the job ends so.
  static bool ends(const std::string& job, const char* how, Seconds limit) {
    return becomes_true([&] { return state(job) == how; }, limit);
  }

  /// Returns the job once it has made some steps.
  std::string submit_endless_training() const {
    const std::string job = submit(concat("exec srun ", FOURFOLD_PROGRAM, " ",
                                          join(work_.train_arguments("run", kEndless), " ")));
    EXPECT_TRUE(trains()) << work_.read("job.txt");
    return job;
  }

  bool trains() const {
    return becomes_true([&] { return lines(work_.read("run/metrics.jsonl")).size() >= 2; },
                        Seconds(120));
  }

  /// No process of the run is left soon, and its folder can be read as far as it was written.
  void expect_ended_well() const {
    EXPECT_TRUE(becomes_true([&] { return processes_with_argument(work_.path("run")).empty(); },
                             Seconds(20)));
    EXPECT_TRUE(work_.has("run/config.toml"));
    EXPECT_FALSE(work_.has("run.json")) << "an unfinished run has no result";
    const auto steps = lines(work_.read("run/metrics.jsonl"));
    EXPECT_GE(steps.size(), 2U);
    for (const std::string& step : steps) EXPECT_TRUE(json::accept(step)) << step;
    // The hosts can be used again.
    EXPECT_EQ(run_program({"srun", "--immediate=30", "-N2", "-n2", "true"}).status, 0);
  }

  static inline const std::vector<std::string> kEndless = {"--grid", "x=2,data=2", "--set",
                                                           "train.steps=10000000"};
  Workspace work_;
};

TEST_F(Slurm, TasksHaveCoresOfTheirOwn) {
  const std::vector<std::vector<std::string>> options = {
      {}, {"--ntasks-per-node=2"}, {"--cpu-bind=none"}, {"--cpu-bind=none", "--cpus-per-task=1"}};
  for (const auto& more : options) {
    std::vector<std::string> launcher = {"srun", "-N2", "-n4"};
    launcher.insert(launcher.end(), more.begin(), more.end());
    expect_cores_of_their_own(places(launcher), join(launcher, " "));
  }
}

TEST_F(Slurm, TasksHaveAsManyCoresAsTheyAskFor) {
  for (const char* bind : {"--cpu-bind=cores", "--cpu-bind=none"}) {
    const auto ranks = places({"srun", "-N2", "-n2", "--cpus-per-task=2", bind});
    ASSERT_EQ(ranks.size(), 2U) << bind;
    for (const Rank& one : ranks) {
      EXPECT_EQ(one.host, concat("n", one.rank)) << bind;
      EXPECT_EQ(one.cores, whole_host()) << bind;
      EXPECT_EQ(one.threads, 2) << bind;
    }
  }
}

TEST_F(Slurm, OvercommittedTasksUseAllTheirCores) {
  // Slurm gives such a job one core of each host, which is worth a remark.
  std::string remark;
  const auto on_one = places({"srun", "-N2", "-n8", "--overcommit"}, &remark);
  ASSERT_EQ(on_one.size(), 8U);
  for (const Rank& one : on_one) {
    EXPECT_EQ(one.cores, "0") << one.rank;
    EXPECT_EQ(one.threads, 1) << one.rank;
  }
  EXPECT_NE(remark.find("4 ranks share 1 core (0) of the 2 of their host"), std::string::npos)
      << remark;
  EXPECT_EQ(lines(remark).size(), 1U) << remark;

  // More tasks than SLURM_NTASKS_PER_NODE, which the job sets, says.
  const std::vector<std::vector<std::string>> launchers = {
      {"srun", "-N1", "-n4", "--overcommit", "--cpus-per-task=2"},
      {"salloc", "-N1", "--ntasks-per-node=2", "srun", "-n4", "--overcommit"},
      {"salloc", "-N1", "--ntasks-per-node=2", "srun", "-n4", "--overcommit", "--cpu-bind=none"}};
  for (const auto& launcher : launchers) {
    const auto ranks = places(launcher);
    EXPECT_EQ(ranks.size(), 4U) << join(launcher, " ");
    for (const Rank& one : ranks) {
      EXPECT_EQ(one.cores, whole_host()) << join(launcher, " ");
      EXPECT_EQ(one.threads, 1) << join(launcher, " ");
    }
  }
}

TEST_F(Slurm, BatchJobsMayUseMpirun) {
  for (const char* bind : {"", "--bind-to none"}) {
    const std::string job = submit(concat("exec mpirun ", bind, " ", RANK_PROGRAM, " print"));
    EXPECT_TRUE(ends(job, "COMPLETED", Seconds(120))) << state(job) << work_.read("job.txt");
    expect_cores_of_their_own(ranks_of(work_.read("job.txt")), concat("mpirun ", bind));
  }
}

TEST_F(Slurm, TrainsAsOneHostDoes) {
  const std::vector<std::string> grid = {"--grid", "x=2,data=2"};
  const Outcome one = work_.train("one", grid);
  ASSERT_EQ(one.status, 0) << one.err;
  std::vector<std::string> command = {"srun", "-N2", "-n4", FOURFOLD_PROGRAM};
  for (const std::string& word : work_.train_arguments("two", grid)) command.push_back(word);
  const Outcome two = run_program(command);
  ASSERT_EQ(two.status, 0) << two.err;
  const json expected = work_.json("one.json");
  const json result = work_.json("two.json");
  EXPECT_EQ(result["ranks"], 4);
  ASSERT_EQ(result["steps"].size(), expected["steps"].size());
  for (std::size_t i = 0; i < expected["steps"].size(); ++i) {
    for (const char* key : {"loss", "grad_norm"}) {
      EXPECT_NEAR(result["steps"][i][key].get<double>(), expected["steps"][i][key].get<double>(),
                  1e-10)
          << key << " of step " << i + 1;
    }
  }
  EXPECT_TRUE(work_.has("two/model.safetensors"));
}

TEST_F(Slurm, ScancelEndsATraining) {
  const std::string job = submit_endless_training();
  EXPECT_EQ(run_program({"scancel", job}).status, 0);
  EXPECT_TRUE(ends(job, "CANCELLED", Seconds(30))) << state(job);
  expect_ended_well();
}

TEST_F(Slurm, TimeLimitEndsATraining) {
  const std::string job = submit_endless_training();
  // Limits are in minutes; a running job can be told to end now. Slurm looks every half minute.
  EXPECT_EQ(run_program({"scontrol", "update", "jobid=" + job, "EndTime=now"}).status, 0);
  EXPECT_TRUE(ends(job, "TIMEOUT", Seconds(90))) << state(job);
  EXPECT_NE(work_.read("job.txt").find("DUE TO TIME LIMIT"), std::string::npos);
  expect_ended_well();
}

/// One script begins a run and goes on with it: Slurm asks the ranks to end, and they save before.
TEST_F(Slurm, ARequeuedJobGoesOn) {
  constexpr int kSteps = 800;
  work_.write("job.sh", concat("#!/bin/sh\nexec srun ", FOURFOLD_PROGRAM, " train ", work_.config(),
                               " --resume ", work_.path("run"), " --grid x=2,data=2 --set ",
                               "train.validate_every=0 --set train.steps=", kSteps, "\n"));
  const Outcome submitted =
      run_program({"sbatch", "--parsable", "--requeue", "--open-mode=append", "-N2", "-n4", "-t",
                   "10", "-o", work_.path("job.txt"), work_.path("job.sh")});
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  const std::string job(trim(submitted.out));
  ASSERT_TRUE(trains()) << work_.read("job.txt");
  ASSERT_EQ(run_program({"scontrol", "requeue", job}).status, 0);
  ASSERT_TRUE(ends(job, "PENDING", Seconds(60))) << state(job);
  // Slurm would wait for two minutes before it starts the job again.
  run_program({"scontrol", "update", "jobid=" + job, "StartTime=now"});
  EXPECT_TRUE(ends(job, "COMPLETED", Seconds(500))) << state(job) << work_.read("job.txt");
  const std::string said = work_.read("job.txt");
  EXPECT_NE(said.find("stopped on request"), std::string::npos) << said;
  EXPECT_NE(said.find("goes on after step "), std::string::npos) << said;
  std::int64_t last = 0;
  for (const std::string& line : lines(work_.read("run/metrics.jsonl"))) {
    const json one = json::parse(line);
    if (!one.contains("loss")) continue;
    EXPECT_EQ(one["step"], last + 1);
    last = one["step"];
  }
  EXPECT_EQ(last, kSteps);
}

TEST_F(Slurm, KilledTaskEndsATraining) {
  std::vector<std::string> command = {"srun", "-N2", "-n4", FOURFOLD_PROGRAM};
  for (const std::string& word : work_.train_arguments("run", kEndless)) command.push_back(word);
  const auto kill_rank_2 = [&](pid_t) {
    EXPECT_TRUE(trains());
    int killed = 0;
    for (const pid_t process : processes_with_argument(work_.path("run"))) {
      std::ifstream file(concat("/proc/", process, "/environ"));
      const std::string variables = '\0' + std::string(std::istreambuf_iterator<char>(file), {});
      if (variables.find(std::string("\0SLURM_PROCID=2\0", 16)) == std::string::npos) continue;
      killed += kill(process, SIGKILL) == 0 ? 1 : 0;
    }
    EXPECT_EQ(killed, 1);
  };
  const Outcome outcome = run_program(command, {}, kill_rank_2);
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
  EXPECT_NE(outcome.err.find("task 2: Killed"), std::string::npos) << outcome.err;
  // Far below the time after which ranks that wait would give up by themselves.
  EXPECT_LT(outcome.seconds.value(), 300);
  expect_ended_well();
}

}  // namespace
}  // namespace fourfold::test
