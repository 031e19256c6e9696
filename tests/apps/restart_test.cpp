// Ranks that stop or are killed: who is named, and how the run goes on.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "fourfold/base/units.hpp"

#include "tests/apps/resume.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A number in the environment of a process; none if it is not there.
std::optional<int> in_environment(pid_t process, const std::string& name) {
  std::ifstream file(concat("/proc/", process, "/environ"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t at = text.find(name + "=");
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(text.c_str() + at + name.size() + 1);
}

/// The processes of a run that mpirun has started, by rank.
std::map<int, pid_t> ranks_of(const std::string& folder) {
  std::map<int, pid_t> ranks;
  for (const pid_t process : processes_with_argument(folder)) {
    const std::optional<int> rank = in_environment(process, "OMPI_COMM_WORLD_RANK");
    if (rank) ranks[*rank] = process;
  }
  return ranks;
}

/// The longest step of a run.
double longest_step(const Workspace& work, const std::string& name) {
  double longest = 0;
  for (const std::string& line : lines(work.read(name + "/metrics.jsonl"))) {
    const json one = json::parse(line, nullptr, false);
    if (one.contains("seconds")) longest = std::max(longest, one["seconds"].get<double>());
  }
  return longest;
}

class Restart : public Resume {};

class StoppedRank : public Resume, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StoppedRank, testing::Values(0, 2));  // the first is the arbiter

/// A rank that stops is found after about a step, without a deadline, and its log says the same.
TEST_P(StoppedRank, IsNamedSoon) {
  const int stopped_rank = GetParam();
  std::vector<std::string> command =
      work.train_arguments("stopped", {"--ranks", "4", "--set", "train.steps=100000", "--set",
                                       "train.validate_every=0", "--grid", "x=2,data=2"});
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  Seconds stopped, named;
  const std::string file = work.path("errors");
  const Outcome outcome = run_program(with_errors_in(file, command), {}, [&](pid_t process) {
    const bool trains = wait_for_steps(work, "stopped", 20);
    const std::map<int, pid_t> ranks = ranks_of(work.path("stopped"));
    EXPECT_TRUE(trains);
    EXPECT_EQ(ranks.size(), 4U);
    if (!trains || ranks.size() != 4) {
      kill(process, SIGTERM);  // nothing else would end it
      return;
    }
    kill(ranks.at(stopped_rank), SIGSTOP);
    stopped = now();
    while (lines(work.read("errors")).empty() && !has_ended(process)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    named = now();
  });
  const Seconds ended = now();
  const std::string err = work.read("errors");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(lines(err).size(), 1U) << err;
  EXPECT_SAYS(err, concat("rank ", stopped_rank, " on "));
  EXPECT_SAYS(err, " does not answer");
  // It is named in twice a step and five seconds (docs/results/checkpoints.md), which other tests on
  // the same cores may double; mpirun has ten to end the others.
  RecordProperty("named_after", concat(named - stopped));
  EXPECT_LT((named - stopped).value(), 2 * (2 * longest_step(work, "stopped") + 5));
  EXPECT_LT((ended - named).value(), 10);
  EXPECT_TRUE(processes_with_argument(work.path("stopped")).empty());
  const Outcome autopsy =
      Workspace::fourfold({"autopsy", work.path("stopped"), "--json", work.path("autopsy.json")});
  EXPECT_EQ(autopsy.status, 0) << autopsy.err;
  EXPECT_SAYS(autopsy.out, concat("rank ", stopped_rank, " on "));
  EXPECT_SAYS(work.json("autopsy.json")["summary"].get<std::string>(), "held the job up");
  ASSERT_EQ(work.json("autopsy.json")["culprits"].size(), 1U) << autopsy.out;
  EXPECT_EQ(work.json("autopsy.json")["culprits"][0]["rank"], stopped_rank) << autopsy.out;
  EXPECT_EQ(Workspace::fourfold({"autopsy", work.path("nothing")}).status, 2);
}

/// Ranks that are killed at any moment, also while they save: the losses are those of a run that
/// nobody disturbed.
TEST_F(Restart, RestartsAfterEveryDeath) {
  const std::vector<std::string> settings = {
      "--set", "train.steps=100",        "--set",  "checkpoint.every=5",
      "--set", "train.validate_every=0", "--grid", "y=2,data=2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), settings.begin(), settings.end());
    return more;
  };
  ASSERT_EQ(work.train("whole", with({})).status, 0);
  const auto expected = losses("whole");
  // Slow devices that do not need the cores: time for kills, whatever else the machine does.
  std::vector<std::string> command = work.train_arguments(
      "killed", with({"--ranks", "4", "--restarts", "20", "--set", "device.gflops=0.03"}));
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  std::mt19937 random(7);
  int killed = 0;
  const auto steps = [&] { return lines(work.read("killed/metrics.jsonl")).size(); };
  const auto saves = [&] {
    std::error_code error;
    for (fs::directory_iterator it(work.path("killed/checkpoints"), error), end;
         !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".partial") return true;
    }
    return false;
  };
  const Outcome outcome = run_program(command, {}, [&](pid_t process) {
    while (killed < 5 && !has_ended(process)) {
      // Until the new ranks train: they cut the metrics, and then add to them.
      const std::size_t before = steps();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (steps() <= before) continue;
      if (killed % 2 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
      } else {
        while (!saves() && !has_ended(process)) {
        }
      }
      const std::map<int, pid_t> ranks = ranks_of(work.path("killed"));
      if (ranks.empty()) continue;
      kill(std::next(ranks.begin(), random() % ranks.size())->second, SIGKILL);
      ++killed;
    }
  });
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(killed, 5);
  EXPECT_SAYS(outcome.err, "and starts again with 4 ranks");
  EXPECT_EQ(losses("killed"), expected) << outcome.err;
  EXPECT_TRUE(processes_with_argument(work.path("killed")).empty());
}

/// A request that comes before the ranks have begun, or even before mpirun has, is kept for them.
TEST_F(Restart, SavesAndStopsWhenItIsAskedWhileItStarts) {
  for (const bool before_ranks : {true, false}) {
    const std::string name = before_ranks ? "before" : "ranks";
    std::vector<std::string> command =
        work.train_arguments(name, {"--ranks", "2", "--set", "train.steps=2000", "--set",
                                    "train.validate_every=0", "--grid", "y=2"});
    command.insert(command.begin(), FOURFOLD_PROGRAM);
    const Outcome outcome = run_program(command, {}, [&](pid_t process) {
      const auto begun = [&] {
        return before_ranks ? processes_with_argument(work.path(name)).size() >= 2
                            : !ranks_of(work.path(name)).empty();
      };
      while (!begun() && !has_ended(process)) {
      }
      kill(process, SIGTERM);
    });
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_SAYS(outcome.out, "stopped on request; fourfold train --resume ");
    const std::size_t done = losses(name).size();
    EXPECT_GE(done, 1U);
    EXPECT_TRUE(work.has(name + "/checkpoints"));
    const Outcome more =
        resume(name, {"--set", concat("train.steps=", done + 2), "--set", "optim.warmup=2"});
    EXPECT_EQ(more.status, 0) << more.err;
    EXPECT_SAYS(more.out, concat("goes on after step ", done));
  }
}

/// Who asks a job to stop does not want it to begin again, whatever comes of the request.
TEST_F(Restart, DoesNotStartAgainWhatWasAskedToStop) {
  std::vector<std::string> command = work.train_arguments(
      "stopped", {"--ranks", "2", "--restarts", "5", "--set", "train.steps=20000", "--set",
                  "train.validate_every=0", "--grid", "y=2"});
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  const Outcome outcome = run_program(command, {}, [&](pid_t process) {
    EXPECT_TRUE(wait_for_steps(work, "stopped", 5));
    work.write("stopped/checkpoints", "a file where a folder should be");
    kill(process, SIGTERM);
  });
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_SAYS(outcome.err, "stopped on request, but the last steps could not be saved: ");
  EXPECT_EQ(outcome.err.find("starts again"), std::string::npos) << outcome.err;
}

/// Data that cannot be read for a while is no reason to give up, or to go on with fewer ranks.
TEST_F(Restart, StartsAsManyRanksAgainWhereTheDataCannotBeRead) {
  std::vector<std::string> command = work.train_arguments(
      "run", {"--ranks", "4", "--grid", "x=2,data=2", "--restarts", "9", "--set", "train.steps=20",
              "--set", "checkpoint.every=4", "--set", "train.validate_every=0", "--set",
              "device.gflops=0.03"});
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  const fs::path text = work.path("text.txt");
  const fs::path aside = work.path("aside.txt");
  const std::string file = work.path("errors");
  const auto restarts = [&] {
    const std::vector<std::string> said = lines(work.read("errors"));
    return std::count_if(said.begin(), said.end(), [](const std::string& line) {
      return line.find("and starts again with") != std::string::npos;
    });
  };
  const Outcome outcome = run_program(with_errors_in(file, command), {}, [&](pid_t job) {
    EXPECT_TRUE(wait_for_steps(work, "run", 5));
    fs::rename(text, aside);
    fs::create_symlink("/proc/self/mem", text);  // a file whose first byte cannot be read
    const std::map<int, pid_t> ranks = ranks_of(work.path("run"));
    if (!ranks.empty()) kill(ranks.rbegin()->second, SIGKILL);
    // The second failure in a row without a step is the third of all.
    while (restarts() < 3 && !has_ended(job)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    fs::remove(text);
    fs::rename(aside, text);
  });
  const std::string err = work.read("errors");
  EXPECT_EQ(outcome.status, 0) << err;
  EXPECT_SAYS(err, "no grid of fewer ranks is looked for: ");
  EXPECT_SAYS(err, "and starts again with 4 ranks");
  EXPECT_EQ(err.find("3 ranks"), std::string::npos) << err;
  EXPECT_EQ(err.find("again with 2 ranks"), std::string::npos) << err;
  EXPECT_EQ(err.find("again with 1 rank"), std::string::npos) << err;
  EXPECT_EQ(losses("run").size(), 20U);
}

/// A run that died between its last checkpoint and its results writes them; a run whose ranks die
/// after that has not failed.
TEST_F(Restart, EndsOnce) {
  ASSERT_EQ(train("whole", {"--grid", "y=2"}).status, 0);
  fs::copy(work.path("whole"), work.path("died"), fs::copy_options::recursive);
  for (const char* file : {"model.safetensors", "ended"}) {
    fs::remove(fs::path(work.path("died")) / file);
  }
  ASSERT_TRUE(work.has("died/config.json")) << "it was killed just before its end";
  const Outcome died = resume("died", {});
  ASSERT_EQ(died.status, 0) << died.err;
  EXPECT_EQ(work.read("died/model.safetensors"), work.read("whole/model.safetensors"));
  EXPECT_EQ(losses("died"), losses("whole"));
  EXPECT_EQ(resume("died", {}).status, 2) << "now it has ended";

  std::vector<std::string> command =
      work.train_arguments("killed", {"--grid", "y=2", "--ranks", "2", "--restarts", "3", "--set",
                                      "train.steps=12", "--set", "checkpoint.every=3"});
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  const Outcome killed = run_program(command, {}, [&](pid_t process) {
    while (!work.has("killed/ended") && !has_ended(process)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (const auto& [rank, id] : ranks_of(work.path("killed"))) kill(id, SIGKILL);
  });
  EXPECT_EQ(killed.status, 0) << killed.err;
  EXPECT_EQ(work.read("killed/ended"), "12\n");
}

/// One of four ranks dies whenever there are four. The model has no grid of three: two go on, with
/// the same batch.
TEST_F(Restart, GoesOnWithFewerRanks) {
  const std::vector<std::string> settings = {
      "--set", "train.steps=20", "--set", "checkpoint.every=4", "--set", "train.validate_every=0"};
  ASSERT_EQ(work.train("whole", settings).status, 0);
  const auto expected = losses("whole");
  std::vector<std::string> more = settings;
  more.insert(more.end(), {"--ranks", "4", "--grid", "x=2,data=2", "--restarts", "9", "--set",
                           "device.gflops=0.03"});
  std::vector<std::string> command = work.train_arguments("killed", more);
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  const Outcome outcome = run_program(command, {}, [&](pid_t job) {
    EXPECT_TRUE(wait_for_steps(work, "killed", 5));
    bool fewer = false;
    while (!fewer && !has_ended(job)) {
      for (const auto& [rank, process] : ranks_of(work.path("killed"))) {
        fewer |= in_environment(process, "OMPI_COMM_WORLD_SIZE") == 2;
        if (rank == 3) kill(process, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_TRUE(fewer);
  });
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_SAYS(outcome.err, "and starts again with 4 ranks");
  EXPECT_SAYS(outcome.err, "and starts again with 2 ranks");
  EXPECT_EQ(outcome.err.find("3 ranks"), std::string::npos) << outcome.err;
  const auto found = losses("killed");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, loss] : found) {
    EXPECT_NEAR(loss, expected.at(step), 1e-8 * expected.at(step)) << step;
  }
}

}  // namespace
}  // namespace fourfold::test
