// What a user gets from `fourfold train`, `sample` and `dryrun`.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <set>

#include <gtest/gtest.h>

#include "fourfold/formats/schedule_json.hpp"

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

/// The largest relative difference of the losses and norms of two results.
double difference(const json& a, const json& b) {
  EXPECT_EQ(a["steps"].size(), b["steps"].size());
  double worst = 0;
  for (std::size_t i = 0; i < a["steps"].size(); ++i) {
    for (const char* key : {"loss", "grad_norm", "lr"}) {
      const double ratio = a["steps"][i][key].get<double>() / b["steps"][i][key].get<double>();
      worst = std::max(worst, std::abs(ratio - 1));
    }
  }
  return worst;
}

TEST(Train, LeavesAFolderAndResults) {
  const Workspace work;
  const Outcome outcome = work.train("run");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* words : {"step 4/4  loss ", "lr ", "norm ", "tokens/s", "mfu ", "exposed ",
                            " left", "validation loss", "run folder"}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << " in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.out.find('\r'), std::string::npos) << "a live line without a terminal";
  for (const char* file : {"config.toml", "log.txt", "metrics.jsonl", "model.safetensors",
                           "config.json", "generation_config.json", "tokenizer.model"}) {
    EXPECT_TRUE(work.has(std::string("run/") + file)) << file;
  }
  const json result = work.json("run.json");
  EXPECT_EQ(result["ranks"], 1);
  EXPECT_TRUE(result["grid"].is_string());
  ASSERT_EQ(result["steps"].size(), 4U);
  for (const char* key : {"step", "loss", "grad_norm", "lr", "seconds"}) {
    EXPECT_TRUE(result["steps"][3][key].is_number()) << key;
  }
  EXPECT_LT(result["steps"][3]["loss"], result["steps"][0]["loss"]);
  for (const char* key :
       {"val_loss", "tokens_per_second", "model_flops_per_second", "gemm_flops_per_second", "mfu",
        "construction_bytes", "peak_bytes", "peak_rss_bytes"}) {
    EXPECT_GT(result["summary"][key].get<double>(), 0) << key;
  }
  for (const char* key : {"parameters", "gradients", "optimizer", "activations"}) {
    EXPECT_GT(result["memory"][key].get<double>(), 0) << key;
  }
  // One line of metrics a step, and one a validation.
  EXPECT_EQ(lines(work.read("run/metrics.jsonl")).size(), 4U + 2U);
  // The resolved configuration does the same again, bit for bit.
  const Outcome again =
      Workspace::fourfold({"train", work.path("run/config.toml"), "--out", work.path("again"),
                           "--json", work.path("again.json")});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(difference(work.json("again.json"), result), 0);
  EXPECT_EQ(work.read("again/model.safetensors"), work.read("run/model.safetensors"));
  EXPECT_EQ(work.read("again/config.toml"), work.read("run/config.toml"));
}

TEST(Train, RanksFollowOneRank) {
  const Workspace work;
  ASSERT_EQ(work.train("one").status, 0);
  const json one = work.json("one.json");
  const Outcome four = work.train("four", {"--ranks", "4", "--grid", "x=2,y=2"});
  ASSERT_EQ(four.status, 0) << four.err;
  EXPECT_EQ(four.err, "");
  EXPECT_EQ(four.out.find('\r'), std::string::npos) << "a live line without a terminal";
  const json result = work.json("four.json");
  EXPECT_LE(difference(result, one), 1e-10);
  EXPECT_EQ(result["ranks"], 4);
  EXPECT_NEAR(result["summary"]["val_loss"].get<double>(), one["summary"]["val_loss"].get<double>(),
              1e-9);
  std::set<std::string> axes;
  for (const json& row : result["communication"]) {
    axes.insert(row["axes"].get<std::string>());
    for (const char* key : {"calls", "payload_bytes", "wire_bytes", "seconds", "exposed_seconds"}) {
      EXPECT_TRUE(row[key].is_number()) << key;
    }
  }
  EXPECT_TRUE(axes.contains("x") && axes.contains("y"));
}

TEST(Train, ChoosesAGridAndSaysSo) {
  const Workspace work;
  const Outcome outcome = work.train("run", {"--ranks=2", "--set", "parallel.strategy=4d"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the one that sends the fewest bytes"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(work.json("run.json")["ranks"], 2);
}

TEST(Train, StartsAsManyRanksAsTheGridHas) {
  const Workspace work;
  const Outcome outcome = work.train("run", {"--grid", "data=2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(work.json("run.json")["ranks"], 2);
}

TEST(Train, GoesOnFromWeightsOnAnotherGrid) {
  const Workspace work;
  ASSERT_EQ(work.train("first").status, 0);
  const double loss = work.json("first.json")["summary"]["val_loss"];
  // With a rate of nothing the model stays what it was.
  const Outcome second =
      work.train("second", {"--init-from", work.path("first"), "--grid", "x=2,z=2", "--set",
                            "optim.lr=1e-300", "--set", "optim.min_lr=1e-300"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_NEAR(work.json("second.json")["summary"]["val_loss"].get<double>(), loss, 1e-10);
}

TEST(Train, StartsFromTheSameWeightsAgain) {
  const Workspace work;
  ASSERT_EQ(work.train("first").status, 0);
  const Outcome second = work.train("second", {"--init-from", work.path("first")});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_NE(second.out.find("weights from " + work.path("first")), std::string::npos) << second.out;
  EXPECT_NE(work.read("second/config.toml").find("init_from = \"" + work.path("first") + "\""),
            std::string::npos);
  const json result = work.json("second.json");
  EXPECT_EQ(result["run"]["init_from"], work.path("first"));
  EXPECT_LT(result["steps"][0]["loss"], work.json("first.json")["steps"][0]["loss"]);
  const Outcome again =
      Workspace::fourfold({"train", work.path("second/config.toml"), "--out", work.path("again"),
                           "--json", work.path("again.json")});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(difference(work.json("again.json"), result), 0);
  EXPECT_EQ(work.read("again/config.toml"), work.read("second/config.toml"));
}

TEST(Train, TakesPathsFromWhereTheyStand) {
  const Workspace work;
  work.write("near.toml", concat(Workspace::kModel,
                                 "[data]\ntext = \"text.txt\"\nvalidation = 0.1\ncache = "
                                 "\"cache\"\n",
                                 Workspace::kTraining));
  ASSERT_EQ(work.train("far").status, 0);
  const Outcome near = Workspace::fourfold({"train", work.path("near.toml"), "--out",
                                            work.path("near"), "--json", work.path("near.json")});
  ASSERT_EQ(near.status, 0) << near.err;
  EXPECT_EQ(difference(work.json("near.json"), work.json("far.json")), 0);
  EXPECT_EQ(work.read("near/config.toml"), work.read("far/config.toml")) << "absolute paths";
}

TEST(Train, SaysAtTheStartHowLargeTheRunIs) {
  const Workspace work;
  const Outcome outcome =
      work.train("run", {"--set", "train.steps=2", "--set", "train.precision=float32"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json run = work.json("run.json")["run"];
  EXPECT_EQ(run["parameters"], 22080);
  EXPECT_EQ(run["tokens_per_step"], 8 * 16);
  EXPECT_EQ(run["steps"], 2);
  EXPECT_EQ(run["precision"], "float32");
  EXPECT_EQ(run["strategy"], "4d");
  EXPECT_EQ(run["data"], work.path("text.txt"));
  EXPECT_TRUE(run["init_from"].is_null());
  EXPECT_GT(run["total_seconds"].get<double>(), 0);
  const auto tokens = run["train_tokens"].get<std::int64_t>();
  // Windows of 16 tokens, and a target for the last.
  EXPECT_NEAR(run["epochs"].get<double>(), 16.0 / static_cast<double>((tokens - 1) / 16), 1e-12);
  const auto at = outcome.out.find("22,080 parameters in float32, strategy 4d on ");
  ASSERT_NE(at, std::string::npos) << outcome.out;
  EXPECT_LT(at, outcome.out.find("step 1/2 "));
  EXPECT_NE(outcome.out.find("2 steps of 128 tokens (8 sequences of 16): "), std::string::npos);
  EXPECT_NE(outcome.out.find(" epochs of "), std::string::npos) << outcome.out;
  EXPECT_NE(work.read("run/log.txt").find("22,080 parameters"), std::string::npos);
  EXPECT_EQ(outcome.out.find(" share "), std::string::npos) << "one rank has a core of its own";
}

TEST(Train, WarnsWhenRanksOutnumberCores) {
  const Workspace work;
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(first), &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(first), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // the program inherits it
  const Outcome outcome = work.train("run", {"--grid", "x=2", "--set", "train.steps=2"});
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 ranks share 1 core: "), std::string::npos) << outcome.out;
  EXPECT_NE(work.read("run/log.txt").find("2 ranks share 1 core: "), std::string::npos);
  const std::string command = work.json("run.json")["run"]["command"];
  EXPECT_NE(command.find(" train "), std::string::npos) << command;
}

TEST(Train, StopsWhenTheLossIsNotFinite) {
  const Workspace work;
  const Outcome outcome = work.train(
      "run", {"--set", "optim.lr=1e300", "--set", "optim.min_lr=1e300", "--set", "train.steps=9"});
  EXPECT_EQ(outcome.status, 1);
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("is not finite on rank 0"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("step "), std::string::npos) << outcome.err;
}

TEST(Train, BytesTokenFilesAndOtherPrecisions) {
  const Workspace work;
  for (const char* precision : {"float32", "bf16"}) {
    const Outcome outcome = work.train(
        precision, {"--set", concat("train.precision=", precision), "--set", "data.tokenizer=bytes",
                    "--set", "train.checkpoint_activations=true"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(work.has(concat(precision, "/vocab.json")));
    const Outcome sample = Workspace::fourfold({"sample", work.path(precision), "--tokens", "5"});
    EXPECT_EQ(sample.status, 0) << sample.err;
  }
  // 256 words of header, then tokens of two bytes.
  std::vector<std::int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 2000;
  std::string tokens(reinterpret_cast<const char*>(header.data()), 1024);
  for (int i = 0; i < 2000; ++i) tokens += {static_cast<char>(i % 200), '\0'};
  work.write("tokens.bin", tokens);
  const Outcome outcome = work.train(
      "tokens", {"--set", "data.text=", "--set", concat("data.tokens=", work.path("tokens.bin"))});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(work.has("tokens/model.safetensors"));
}

TEST(Train, WithTheTokenizerOfAnother) {
  const Workspace work;
  const std::string golden = GOLDEN_FOLDER "/llama3";
  const std::string from = "data.tokenizer_from=" + golden;
  const Outcome small = work.train("small", {"--set", from});
  EXPECT_EQ(small.status, 2);
  EXPECT_NE(small.err.find("model.vocab = 300 is less than the 2007 tokens of the tokenizer"),
            std::string::npos)
      << small.err;
  const Outcome none = work.train("none", {"--set", "data.tokenizer_from=/no/such"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("data.tokenizer_from = /no/such does not exist"), std::string::npos)
      << none.err;
  const Outcome bare = work.train("bare", {"--set", "data.tokenizer_from=" + work.path("")});
  EXPECT_EQ(bare.status, 2);
  EXPECT_NE(bare.err.find("there is no tokenizer in"), std::string::npos) << bare.err;
  const Outcome outcome = work.train("run", {"--set", from, "--set", "model.vocab=2007"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::ifstream file(golden + "/tokenizer.json", std::ios::binary);
  const std::string original{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(original.empty());
  EXPECT_EQ(work.read("run/tokenizer.json"), original);
  EXPECT_FALSE(work.has("run/vocab.json"));
  const Outcome sample =
      Workspace::fourfold({"sample", work.path("run"), "--prompt", "The", "--tokens", "5"});
  EXPECT_EQ(sample.status, 0) << sample.err;
  EXPECT_EQ(sample.out.substr(0, 3), "The");
}

/// Both ways to multiply bf16, on each axis: each follows one rank in float64 to 2% of the loss,
/// and the ranks need the same memory by classes other than workspace.
TEST(Train, Bf16OnEveryAxisInBothWays) {
  const Workspace work;
  ASSERT_EQ(work.train("exact").status, 0);
  const json exact = work.json("exact.json")["steps"];
  for (const std::string grid : {"x=2", "y=2", "z=2", "data=2", "z=2,pipe=2"}) {
    json memory;
    for (const char* way : {"native", "float"}) {
      const std::string name = concat(grid, way);
      std::vector<std::string> command = work.train_arguments(
          name, {"--grid", grid, "--set", "train.precision=bf16", "--set", "train.micro_batch=4"});
      command.insert(command.begin(), FOURFOLD_PROGRAM);
      const Outcome outcome = run_program(command, {concat("FOURFOLD_BF16_PRODUCTS=", way)});
      ASSERT_EQ(outcome.status, 0) << name << ": " << outcome.err;
      json result = work.json(name + ".json");
      ASSERT_EQ(result["steps"].size(), exact.size());
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double loss = exact[i]["loss"];
        EXPECT_NEAR(result["steps"][i]["loss"].get<double>(), loss, 0.02 * loss) << name;
      }
      EXPECT_TRUE(result["memory"].contains("workspace")) << result["memory"];
      result["memory"].erase("workspace");
      if (memory.is_null()) memory = result["memory"];
      EXPECT_EQ(result["memory"], memory) << name;
    }
  }
}

TEST(Sample, IsTheSameOnEveryNumberOfRanks) {
  const Workspace work;
  ASSERT_EQ(work.train("run", {"--set", "train.precision=float32"}).status, 0);
  const std::vector<std::string> common = {"sample",     work.path("run"), "--prompt",
                                           "The number", "--tokens",       "12"};
  const Outcome one = Workspace::fourfold(common);
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out.rfind("The number", 0), 0U);
  EXPECT_GT(one.out.size(), std::string("The number\n").size());
  std::vector<std::string> on_two = common;
  on_two.insert(on_two.end(), {"--ranks", "2", "--json", work.path("s.json")});
  const Outcome two = Workspace::fourfold(on_two);
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(two.out, one.out);
  EXPECT_EQ(work.json("s.json")["samples"][0].get<std::string>() + "\n", one.out);
  std::vector<std::string> other = common;
  other.insert(other.end(), {"--seed", "2"});
  EXPECT_NE(Workspace::fourfold(other).out, one.out);
}

TEST(DryRunCommand, TellsWhatARealRunDoes) {
  const Workspace work;
  ASSERT_EQ(work.train("run", {"--grid", "x=2,z=2"}).status, 0);
  const Outcome dry =
      Workspace::fourfold({"dryrun", work.config(), "--grid", "x=2,z=2", "--schedule", "--json",
                           work.path("dry.json"), "--set", "device.gflops=2"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  const json result = work.json("dry.json");
  const json real = work.json("run.json");
  ASSERT_EQ(result["communication"].size(), real["communication"].size());
  for (std::size_t i = 0; i < real["communication"].size(); ++i) {
    const json& a = result["communication"][i];
    const json& b = real["communication"][i];
    EXPECT_EQ(a["op"], b["op"]);
    EXPECT_EQ(a["axes"], b["axes"]);
    // Four steps.
    EXPECT_EQ(4 * a["payload_bytes"].get<std::int64_t>(), b["payload_bytes"]);
    EXPECT_EQ(4 * a["calls"].get<std::int64_t>(), b["calls"]);
  }
  const schedule::Schedule schedule =
      formats::parse_schedule(work.read("dry.json"), work.path("dry.json"));
  EXPECT_EQ(schedule.steps().size(), result["schedule"].size());
  double flops = 0;
  for (const schedule::Step& step : schedule.steps()) {
    const auto* compute = std::get_if<schedule::Compute>(&step);
    if (compute != nullptr) flops += compute->arithmetic.flops.value();
  }
  EXPECT_EQ(flops, result["flops"]);
  EXPECT_NEAR(result["device_seconds"].get<double>(), flops / 2e9, 1e-9 * flops / 2e9);
  EXPECT_NE(dry.out.find("a device of 2.00 GFLOP/s computes for "), std::string::npos) << dry.out;
  double of_works = 0;
  for (const json& row : result["work"]) of_works += row["flops"].get<double>();
  EXPECT_NEAR(of_works, flops, 1e-9 * flops);
  // The ranks of this grid hold the same, as far as the model's sizes divide.
  const auto near = [](const json& a, const json& b) {
    return std::abs(a.get<double>() / b.get<double>() - 1) < 0.02;
  };
  const json& summary = real["summary"];
  EXPECT_TRUE(near(result["construction_bytes"], summary["construction_bytes"])) << summary;
  EXPECT_LT(result["construction_bytes"], result["peak_bytes"]);
  EXPECT_GE(summary["peak_bytes"], summary["construction_bytes"]);
  std::int64_t construction = 0;
  for (const auto& [kind, bytes] : result["construction"].items()) {
    construction += bytes.get<std::int64_t>();
  }
  EXPECT_EQ(construction, result["construction_bytes"]);
  EXPECT_NE(dry.out.find("construction"), std::string::npos);
}

TEST(DryRunCommand, SaysForWhichHostsItCountsMessages) {
  const Workspace work;
  const auto dry_run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"dryrun", work.config(),     "--grid", "x=2,z=2",
                                    "--set",  "model.width=512", "--json", work.path("dry.json")};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = Workspace::fourfold(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return lines(outcome.out).at(1);
  };
  const auto sum = [&](const std::string& key) {
    const json result = work.json("dry.json");
    std::int64_t all = 0;
    for (const json& each : result["communication"]) all += each[key].get<std::int64_t>();
    return all;
  };
  EXPECT_EQ(dry_run({}),
            "messages are counted as if all 4 ranks were on one host; --ranks-per-host N says "
            "otherwise");
  EXPECT_EQ(work.json("dry.json")["ranks_per_host"], 4);
  const std::int64_t messages = sum("messages");
  const std::int64_t bytes = sum("wire_bytes");
  EXPECT_EQ(dry_run({"--ranks-per-host", "2"}),
            "messages are counted for 2 hosts with 2 ranks each, in the order of ranks");
  EXPECT_EQ(work.json("dry.json")["ranks_per_host"], 2);
  EXPECT_GT(sum("messages"), messages);
  EXPECT_EQ(sum("wire_bytes"), bytes);
}

}  // namespace
}  // namespace fourfold::test
