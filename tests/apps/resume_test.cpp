// What a user has of checkpoints: a run that ends goes on as if nothing had happened.
// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/resume.hpp"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class BadSteps : public Resume {
 protected:
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
TEST_F(BadSteps, AreLeftOutAgainWhenTheRunGoesOn) {
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

  // The first time a checkpoint from before the fault might help; the second time nothing does.
  std::vector<std::string> again = settings;
  again.insert(again.end(), {"--ranks", "2", "--restarts", "5"});
  const Outcome restarted = train("restarted", again);
  EXPECT_EQ(restarted.status, 1);
  EXPECT_EQ(lines(restarted.err).size(), 4U) << restarted.err;
  EXPECT_SAYS(restarted.err, "and starts again with 2 ranks; 4 more restarts");
  EXPECT_SAYS(restarted.err, " has bad numbers again");

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
  const Outcome missing =
      Workspace::fourfold({"checkpoint", "verify", work.path("damaged"), "--step", "4"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(lines(missing.err).size(), 1U) << missing.err;
  EXPECT_SAYS(missing.err, "no checkpoint of step 4: fourfold checkpoint list ");
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
  const std::string metrics = work.read("lost/metrics.jsonl");
  const Outcome lost = resume("lost", {});
  EXPECT_EQ(lost.status, 2);
  EXPECT_EQ(lines(lost.err).size(), 1U) << lost.err;
  EXPECT_SAYS(lost.err, "3 are damaged or cannot be read): nothing was changed");
  EXPECT_EQ(work.read("lost/metrics.jsonl"), metrics);
}

/// What somebody has removed by mistake is in every checkpoint.
TEST_F(Resume, FindsTheConfigurationOfARunInItsCheckpoint) {
  ASSERT_EQ(train("whole", {}).status, 0);
  die_after("whole", "bare", 6);
  fs::remove(work.path("bare/config.toml"));
  fs::remove(work.path("bare/checkpoints/step-00000006/manifest.json"));
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

TEST_F(Resume, SaysThatItCannotSaveWhatItIsAskedFor) {
  std::vector<std::string> command =
      work.train_arguments("stopped", {"--ranks", "2", "--set", "train.steps=100000", "--set",
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
}

/// A run that was killed before it had done anything begins again.
TEST_F(Resume, BeginsAgainWhereItWasKilledAtOnce) {
  ASSERT_EQ(train("whole", {}).status, 0);
  work.write("killed/config.toml.123.part", "[mod");
  Outcome again = train("killed", {});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(work.has("killed/config.toml.123.part"));
  EXPECT_EQ(losses("killed"), losses("whole"));

  // With results and without checkpoints, but without the note that it has ended.
  for (const char* file : {"checkpoints", "ended", "config.json"}) {
    fs::remove_all(fs::path(work.path("killed")) / file);
  }
  work.write("killed/model.safetensors.123.part", "half");
  again = resume("killed", {});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_SAYS(again.out, "there is no checkpoint yet: the run begins again");
  EXPECT_EQ(losses("killed"), losses("whole"));
  EXPECT_TRUE(work.has("killed/config.json"));
  EXPECT_FALSE(work.has("killed/model.safetensors.123.part"));
}

/// The weights that a run began with stay in its configuration, and are not read again.
TEST_F(Resume, KeepsWhatItBeganWith) {
  ASSERT_EQ(train("weights", {}).status, 0);
  ASSERT_EQ(train("whole", {"--init-from", work.path("weights")}).status, 0);
  die_after("whole", "died", 6);
  const Outcome died = resume("died", {});
  ASSERT_EQ(died.status, 0) << died.err;
  EXPECT_EQ(losses("died"), losses("whole"));
  EXPECT_EQ(died.out.find("weights from"), std::string::npos) << died.out;
  EXPECT_EQ(work.read("died/config.toml"), work.read("whole/config.toml"));
  EXPECT_EQ(work.json("died.json")["run"]["init_from"], work.path("weights"));

  // Their folder may be gone by then, and with it the tokenizer, which the run has copied.
  die_after("whole", "alone", 6);
  std::vector<std::string> command =
      work.train_arguments("stopped", {"--init-from", work.path("weights"), "--set",
                                       "train.steps=20000", "--set", "train.validate_every=0"});
  command.insert(command.begin(), FOURFOLD_PROGRAM);
  const Outcome stopped = run_program(command, {}, [&](pid_t process) {
    EXPECT_TRUE(wait_for_steps(work, "stopped", 3));
    kill(process, SIGTERM);
  });
  ASSERT_EQ(stopped.status, 3) << stopped.err;
  fs::remove_all(work.path("weights"));
  const Outcome alone = resume("alone", {});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(losses("alone"), losses("whole"));
  EXPECT_EQ(work.read("alone/config.toml"), work.read("whole/config.toml"));
  const std::size_t done = losses("stopped").size();
  const Outcome more =
      resume("stopped", {"--set", concat("train.steps=", done + 2), "--set", "optim.warmup=2"});
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_SAYS(more.out, concat("goes on after step ", done));
  const Outcome exported = Workspace::fourfold(
      {"checkpoint", "export", work.path("whole"), "--out", work.path("exported")});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(work.read("exported/model.safetensors"), work.read("whole/model.safetensors"));
  const Outcome refused = train("new", {"--init-from", work.path("weights")});
  EXPECT_EQ(refused.status, 2) << "a new run needs them";
  EXPECT_SAYS(refused.err, "train.init_from = ");
}

/// A command with a configuration that leaves the grid open, as of a job that is queued again: the
/// run keeps the grid that it has.
TEST_F(Resume, KeepsItsGridWhereTheConfigurationHasNone) {
  ASSERT_EQ(train("whole", {"--grid", "y=2"}).status, 0);
  const auto again = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "train.steps=12", "--set", "checkpoint.every=3", "--set",
                             "checkpoint.keep=10"});
    std::vector<std::string> arguments = {
        "train", work.config(), "--resume", work.path(name), "--json", work.path(name + ".json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Workspace::fourfold(arguments);
  };
  const std::string grid = work.json("whole.json")["grid"].get<std::string>();
  die_after("whole", "same", 6);
  const Outcome same = again("same", {"--ranks", "2"});
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_SAYS(same.out, "goes on after step 6 of 12");
  EXPECT_EQ(same.out.find("the plan for"), std::string::npos) << same.out;
  EXPECT_EQ(work.json("same.json")["grid"], grid);
  EXPECT_EQ(losses("same"), losses("whole")) << "the same bits";

  die_after("whole", "other", 6);
  const Outcome other = again("other", {"--ranks", "2", "--grid", "data=2"});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_NE(work.json("other.json")["grid"], grid) << "what the user says counts";
  die_after("whole", "named", 6);
  const Outcome named = again("named", {"--ranks", "2", "--set", "parallel.strategy=ddp"});
  ASSERT_EQ(named.status, 0) << named.err;
  EXPECT_NE(work.json("named.json")["grid"], grid);
  die_after("whole", "alone", 6);
  const Outcome alone = again("alone", {"--ranks", "1"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(losses("alone").size(), 12U);
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

}  // namespace
}  // namespace fourfold::test
