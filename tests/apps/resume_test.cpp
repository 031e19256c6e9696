// What a user has of checkpoints: a run that ends goes on as if nothing had happened.
// SPDX-License-Identifier: Apache-2.0
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

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"
#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Resume : public testing::Test {
 protected:
  static constexpr int kSteps = 12;
  static constexpr double kSkipped = -1;  // in the place of the loss of a step that updates nothing

  /// The losses by step, and fails if a step is there twice or out of order.
  std::map<std::int64_t, double> losses(const std::string& name) const {
    std::map<std::int64_t, double> found;
    std::int64_t last = 0;
    for (const std::string& line : lines(work.read(name + "/metrics.jsonl"))) {
      const json one = json::parse(line);
      if (!one.contains("loss")) continue;
      const auto step = one["step"].get<std::int64_t>();
      EXPECT_EQ(step, last + 1) << name;
      last = step;
      found[step] = one.contains("skipped") ? kSkipped : one["loss"].get<double>();
    }
    return found;
  }
  Outcome train(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.end(), {"--set", "train.steps=12", "--set", "checkpoint.every=3", "--set",
                             "checkpoint.keep=10"});
    return work.train(name, more);
  }
  Outcome resume(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"train", "--resume", work.path(name), "--json",
                                          work.path(name + ".json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Workspace::fourfold(arguments);
  }
  /// The folder of a run as if it had died after step `step`, with all of its files but the later
  /// checkpoints: its metrics go on for some steps.
  void die_after(const std::string& run, const std::string& name, int step) const {
    fs::copy(work.path(run), work.path(name), fs::copy_options::recursive);
    for (int later = step + 3; later <= kSteps; later += 3) {
      fs::remove_all(fs::path(work.path(name)) / "checkpoints" / concat("step-0000000", later));
      fs::remove_all(fs::path(work.path(name)) / "checkpoints" / concat("step-000000", later));
    }
    for (const char* file : {"model.safetensors", "config.json"}) {
      fs::remove(fs::path(work.path(name)) / file);
    }
    work.write(name + "/metrics.jsonl", work.read(name + "/metrics.jsonl") + "{\"step\":13,\"lo");
  }

  /// A folder with weights that make numbers too large of every sample that has a '~', and of no
  /// other; about every fifth step of `settings` has one.
  std::string spoiled_weights(const std::vector<std::string>& settings) const {
    std::string text = work.read("text.txt");
    for (std::size_t at = 300; at < text.size(); at += 600) text[at] = '~';
    work.write("text.txt", text);
    EXPECT_EQ(work.train("spoiled", settings).status, 0);
    std::string file = work.read("spoiled/model.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    const json tables = json::parse(file.substr(8, header));
    json table;
    for (const auto& [name, entry] : tables.items()) {
      if (name.ends_with("wte.weight")) table = entry;
    }
    const auto width = table["shape"][1].get<std::size_t>();
    const std::size_t begin =
        8 + header + table["data_offsets"][0].get<std::size_t>() + '~' * width * sizeof(double);
    for (std::size_t i = 0; i < width; ++i) {
      const double value = i < width / 2 ? 1.7e308 : -1.7e308;
      std::memcpy(file.data() + begin + i * sizeof value, &value, sizeof value);
    }
    work.write("spoiled/model.safetensors", file);
    return work.path("spoiled");
  }

  const Workspace work;
};

TEST_F(Resume, GoesOnExactlyOnTheSameGridAndCloselyOnAnother) {
  const Outcome whole = train("whole", {"--grid", "y=2", "--report", work.path("whole.html")});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_SAYS(whole.out, "checkpoint of step 3: ");
  EXPECT_SAYS(whole.out, "training stood still for ");
  const auto expected = losses("whole");
  ASSERT_EQ(expected.size(), 12U);
  EXPECT_FALSE(work.has("whole/flight")) << "all went well";

  die_after("whole", "same", 6);
  const Outcome same = resume("same", {});
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_SAYS(same.out, "goes on after step 6 of 12");
  EXPECT_EQ(losses("same"), expected) << "the same bits";
  EXPECT_EQ(work.read("same/model.safetensors"), work.read("whole/model.safetensors"));
  const json again = work.json("same.json");
  EXPECT_EQ(again["steps"].size(), 12U) << "with the steps before";
  EXPECT_EQ(again["steps"][2]["loss"], expected.at(3));

  die_after("whole", "other", 9);
  const Outcome other = resume("other", {"--grid", "x=2,data=2"});
  ASSERT_EQ(other.status, 0) << other.err;
  for (const auto& [step, loss] : losses("other")) {
    EXPECT_NEAR(loss, expected.at(step), 1e-8 * expected.at(step)) << step;
  }
  die_after("whole", "fewer", 3);
  const Outcome fewer = resume("fewer", {"--ranks", "1"});
  ASSERT_EQ(fewer.status, 0) << fewer.err;
  for (const auto& [step, loss] : losses("fewer")) {
    EXPECT_NEAR(loss, expected.at(step), 1e-8 * expected.at(step)) << step;
  }
}

/// Steps that are left out are so again when the run goes on, and all others have the same losses.
TEST_F(Resume, StopsAtABadStepOrGoesOnWithoutIt) {
  std::vector<std::string> settings = {
      "--set", "data.tokenizer=bytes",  "--set", "model.vocab=256",
      "--set", "model.tied=false",      "--set", "train.compare_every=2",
      "--set", "train.validate_every=0"};
  const std::string weights = spoiled_weights(settings);
  settings.insert(settings.end(), {"--init-from", weights, "--grid", "y=2"});
  const Outcome stopped = train("stopped", settings);
  EXPECT_EQ(stopped.status, 1);
  EXPECT_EQ(lines(stopped.err).size(), 1U) << stopped.err;
  EXPECT_SAYS(stopped.err, " is not finite on rank ");
  EXPECT_SAYS(stopped.err, "; the same in a second run of the step (reproducible), first in the ");
  EXPECT_SAYS(stopped.err, "forward pass of micro-batch ");
  EXPECT_SAYS(stopped.err, " of the step (");
  EXPECT_SAYS(stopped.err, "; nothing was updated");

  settings.insert(settings.end(), {"--on-bad-step", "skip"});
  const Outcome whole = train("whole", settings);
  ASSERT_EQ(whole.status, 0) << whole.err;
  const auto expected = losses("whole");
  ASSERT_EQ(expected.size(), 12U);
  std::int64_t skipped = 0;
  for (const auto& [step, loss] : expected) skipped += loss == kSkipped ? 1 : 0;
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 8);
  EXPECT_EQ(work.json("whole.json")["summary"]["skipped_steps"], skipped);
  EXPECT_SAYS(whole.out, "; this step updates nothing");
  EXPECT_SAYS(whole.out, concat(skipped, skipped == 1 ? " step" : " steps", " updated nothing"));
  const std::size_t first = stopped.err.find("step ");
  const std::string step = stopped.err.substr(first, stopped.err.find(':', first) - first);
  EXPECT_SAYS(whole.out, step + ": ");

  die_after("whole", "same", 6);
  const Outcome same = resume("same", {});
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(losses("same"), expected) << "the same bits";
  EXPECT_EQ(work.json("same.json")["summary"]["skipped_steps"], skipped);
  EXPECT_EQ(train("refused", {"--on-bad-step", "ignore"}).status, 2);
}

TEST_F(Resume, TakesTheCheckpointBeforeADamagedOne) {
  ASSERT_EQ(train("whole", {}).status, 0);
  const auto expected = losses("whole");
  die_after("whole", "damaged", 9);
  const std::string file = "damaged/checkpoints/step-00000009/rank-00000.safetensors";
  std::string bytes = work.read(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  work.write(file, bytes);
  const Outcome listed = Workspace::fourfold({"checkpoint", "list", work.path("damaged")});
  EXPECT_EQ(listed.status, 0) << listed.err;
  const Outcome verified = Workspace::fourfold(
      {"checkpoint", "verify", work.path("damaged"), "--json", work.path("verified.json")});
  EXPECT_EQ(verified.status, 1);
  EXPECT_SAYS(verified.out, "damaged");
  EXPECT_SAYS(verified.err, "rank-00000.safetensors has changed since it was written");
  const json found = work.json("verified.json");
  ASSERT_EQ(found["checkpoints"].size(), 3U);
  EXPECT_NE(found["checkpoints"][0]["damage"], "");
  EXPECT_EQ(found["checkpoints"][1]["damage"], "");
  const Outcome resumed = resume("damaged", {});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_SAYS(resumed.out, "the checkpoint of step 9 is damaged and is left out");
  EXPECT_SAYS(resumed.out, "goes on after step 6 of 12");
  EXPECT_EQ(losses("damaged"), expected);

  die_after("whole", "lost", 9);
  for (int step = 3; step <= 9; step += 3) {
    work.write(concat("lost/checkpoints/step-0000000", step, "/manifest.json"), "");
  }
  const Outcome lost = resume("lost", {});
  EXPECT_EQ(lost.status, 2);
  EXPECT_EQ(lines(lost.err).size(), 1U) << lost.err;
  EXPECT_SAYS(lost.err, "3 are damaged or cannot be read): nothing was changed");
  EXPECT_EQ(losses("lost").size(), 12U) << "the metrics stay";
}

/// What somebody has removed by mistake is in every checkpoint.
TEST_F(Resume, FindsTheConfigurationOfARunInItsCheckpoint) {
  ASSERT_EQ(train("whole", {}).status, 0);
  die_after("whole", "bare", 6);
  fs::remove(work.path("bare/config.toml"));
  const Outcome bare = resume("bare", {});
  ASSERT_EQ(bare.status, 0) << bare.err;
  EXPECT_EQ(losses("bare"), losses("whole"));
  EXPECT_EQ(work.read("bare/config.toml"), work.read("whole/config.toml"));
}

TEST_F(Resume, ExportsTheModelOfACheckpoint) {
  ASSERT_EQ(train("whole", {"--grid", "y=2"}).status, 0);
  const Outcome last = Workspace::fourfold(
      {"checkpoint", "export", work.path("whole"), "--out", work.path("exported")});
  ASSERT_EQ(last.status, 0) << last.err;
  for (const char* file : {"model.safetensors", "config.json", "generation_config.json"}) {
    EXPECT_EQ(work.read(concat("exported/", file)), work.read(concat("whole/", file))) << file;
  }
  const Outcome early = Workspace::fourfold(
      {"checkpoint", "export", work.path("whole"), "--step", "3", "--out", work.path("early")});
  ASSERT_EQ(early.status, 0) << early.err;
  EXPECT_NE(work.read("early/model.safetensors"), work.read("whole/model.safetensors"));
  EXPECT_EQ(Workspace::fourfold({"checkpoint", "export", work.path("whole"), "--step", "4"}).status,
            2);
}

TEST_F(Resume, RefusesWhatCannotGoOn) {
  const auto expect_refusal = [&](const std::string& words, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "train");
    const Outcome outcome = Workspace::fourfold(arguments);
    EXPECT_EQ(outcome.status, 2) << words;
    EXPECT_SAYS(outcome.err, words);
    EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  };
  expect_refusal("train needs a configuration", {});
  expect_refusal("is not the folder of a run", {"--resume", work.path("nothing")});
  ASSERT_EQ(work.train("ended", {}).status, 0);
  expect_refusal("has ended and has no checkpoint", {"--resume", work.path("ended")});
  ASSERT_EQ(train("whole", {}).status, 0);
  expect_refusal("train.batch must stay 8",
                 {"--resume", work.path("whole"), "--set", "train.batch=16"});
  expect_refusal("has train.seed = 1, and now it is 2",
                 {"--resume", work.path("whole"), "--set", "train.seed=2"});
  expect_refusal("has model.layers = 2, and now it is 1",
                 {"--resume", work.path("whole"), "--set", "model.layers=1"});
  expect_refusal("train.ema must stay 0",
                 {"--resume", work.path("whole"), "--set", "train.ema=0.9"});
  expect_refusal("has done all of its 12 steps", {"--resume", work.path("whole")});
  expect_refusal("leave out --out", {"--resume", work.path("whole"), "--out", work.path("x")});
  expect_refusal("--restarts needs --ranks", {work.config(), "--restarts", "2"});
}

/// Waits until a run has done so many steps; on a busy machine ranks take long to start.
bool wait_for_steps(const Workspace& work, const std::string& name, std::size_t steps) {
  for (int i = 0; i < 6000; ++i) {
    if (lines(work.read(name + "/metrics.jsonl")).size() > steps) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

TEST_F(Resume, SavesAndStopsOnRequest) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string name = concat("stopped-", signal);
    std::vector<std::string> command =
        work.train_arguments(name, {"--ranks", "2", "--set", "train.steps=100000", "--set",
                                    "train.validate_every=0", "--grid", "y=2"});
    command.insert(command.begin(), FOURFOLD_PROGRAM);
    const Outcome outcome = run_program(command, {}, [&](pid_t process) {
      EXPECT_TRUE(wait_for_steps(work, name, 5));
      if (signal == SIGUSR1) {
        const Outcome second = resume(name, {});
        EXPECT_EQ(second.status, 2) << second.err;
        EXPECT_SAYS(second.err, "another run is writing to");
      }
      kill(process, signal);
    });
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    EXPECT_SAYS(outcome.out, "stopped on request; fourfold train --resume ");
    EXPECT_EQ(outcome.err, "");
    const std::size_t done = losses(name).size();
    const Outcome more =
        resume(name, {"--set", concat("train.steps=", done + 2), "--set", "optim.warmup=2"});
    EXPECT_EQ(more.status, 0) << more.err;
    EXPECT_SAYS(more.out, concat("goes on after step ", done));
    EXPECT_EQ(losses(name).size(), done + 2);
  }
}

/// A number in the environment of a process; none if it is not there.
std::optional<int> in_environment(pid_t process, const std::string& name) {
  std::ifstream file(concat("/proc/", process, "/environ"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t at = text.find(name + "=");
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(text.c_str() + at + name.size() + 1);
}

/// Real disks: one that can only be read, one that is full, for checkpoints alone and for all files
/// of the run, and a folder that is gone while a run saves. The run trains on, what it had saved
/// stays, no step is missing in its metrics, and it saves again where it can.
TEST_F(Resume, TrainsOnWhereTheDiskFails) {
  std::vector<std::string> command = {"unshare", "-m", FAILING_DISKS, work.path("run"),
                                      FOURFOLD_PROGRAM};
  for (const std::string& word :
       work.train_arguments("run", {"--grid", "y=2", "--set", "train.steps=100000", "--set",
                                    "checkpoint.every=10", "--set", "train.validate_every=0"})) {
    command.push_back(word);
  }
  const Outcome outcome = run_program(command);
  const bool no_namespaces = outcome.status == 1 && outcome.out.empty();
  if (outcome.status == 77 || no_namespaces) GTEST_SKIP() << outcome.err;
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "status 3\n");
  EXPECT_EQ(work.read("run.err"), "");
  EXPECT_SAYS(work.read("run.out"),
              "No space left on device; training goes on, and what is missing");
  EXPECT_SAYS(work.read("run/log.txt"),
              "; training goes on, and earlier checkpoints are as they were");
  const std::size_t done = losses("run").size();
  const Outcome more =
      resume("run", {"--set", concat("train.steps=", done + 2), "--set", "optim.warmup=2"});
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_SAYS(more.out, concat("goes on after step ", done));
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

/// A rank that stops is found after about a step, without a deadline, and its log says the same.
TEST_F(Resume, AStoppedRankIsNamedSoon) {
  std::vector<std::string> command =
      work.train_arguments("stopped", {"--ranks", "4", "--set", "train.steps=100000", "--set",
                                       "train.validate_every=0", "--grid", "x=2,data=2"});
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  std::chrono::steady_clock::time_point stopped;
  const Outcome outcome = run_program(command, {}, [&](pid_t process) {
    const bool trains = wait_for_steps(work, "stopped", 20);
    const std::map<int, pid_t> ranks = ranks_of(work.path("stopped"));
    EXPECT_TRUE(trains);
    EXPECT_EQ(ranks.size(), 4U);
    if (!trains || ranks.size() != 4) {
      kill(process, SIGTERM);  // nothing else would end it
      return;
    }
    kill(ranks.at(2), SIGSTOP);
    stopped = std::chrono::steady_clock::now();
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - stopped;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_SAYS(outcome.err, "rank 2 on ");
  EXPECT_SAYS(outcome.err, " does not answer");
  EXPECT_LT(took.count(), 20) << "mpirun takes some seconds to end the others";
  EXPECT_TRUE(processes_with_argument(work.path("stopped")).empty());
  const Outcome autopsy =
      Workspace::fourfold({"autopsy", work.path("stopped"), "--json", work.path("autopsy.json")});
  EXPECT_EQ(autopsy.status, 0) << autopsy.err;
  EXPECT_SAYS(autopsy.out, "rank 2 on ");
  EXPECT_SAYS(work.json("autopsy.json")["summary"].get<std::string>(), "held the job up");
  ASSERT_EQ(work.json("autopsy.json")["culprits"].size(), 1U) << autopsy.out;
  EXPECT_EQ(work.json("autopsy.json")["culprits"][0]["rank"], 2) << autopsy.out;
  EXPECT_EQ(Workspace::fourfold({"autopsy", work.path("nothing")}).status, 2);
}

/// Ranks that are killed at any moment, also while they save: the losses are those of a run that
/// nobody disturbed.
TEST_F(Resume, RestartsAfterEveryDeath) {
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
  const Outcome outcome = run_program(command, {}, [&](pid_t) {
    for (int tries = 0; killed < 5 && tries < 400; ++tries) {
      // Until the new ranks train: they cut the metrics, and then add to them.
      const std::size_t before = steps();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (steps() <= before) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
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

/// A run that died between its last checkpoint and its results writes them; a run whose ranks die
/// after that has not failed.
TEST_F(Resume, EndsOnce) {
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
  const Outcome killed = run_program(command, {}, [&](pid_t) {
    for (int tries = 0; tries < 300000 && !work.has("killed/ended"); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (const auto& [rank, id] : ranks_of(work.path("killed"))) kill(id, SIGKILL);
  });
  EXPECT_EQ(killed.status, 0) << killed.err;
  EXPECT_EQ(work.read("killed/ended"), "12\n");
}

/// One of four ranks dies whenever there are four. The model has no grid of three: two go on, with
/// the same batch.
TEST_F(Resume, GoesOnWithFewerRanks) {
  const std::vector<std::string> settings = {
      "--set", "train.steps=20", "--set", "checkpoint.every=4", "--set", "train.validate_every=0"};
  ASSERT_EQ(work.train("whole", settings).status, 0);
  const auto expected = losses("whole");
  std::vector<std::string> more = settings;
  more.insert(more.end(), {"--ranks", "4", "--grid", "x=2,data=2", "--restarts", "9", "--set",
                           "device.gflops=0.03"});
  std::vector<std::string> command = work.train_arguments("killed", more);
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  const Outcome outcome = run_program(command, {}, [&](pid_t) {
    EXPECT_TRUE(wait_for_steps(work, "killed", 5));
    bool fewer = false;
    for (int tries = 0; !fewer && tries < 1200; ++tries) {
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
