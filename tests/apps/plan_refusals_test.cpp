// What `fourfold plan` refuses, each with one line.
// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/plan_fixture.hpp"

namespace fourfold::test {
namespace {

class PlanRefuses : public Plan {};

TEST_F(PlanRefuses, BadOptions) {
  const std::string json_file = work.path("plan.json");
  expect_refusal("--gpus N is missing", {});
  expect_refusal("--gpus must be at least 1, not 0", {"--gpus", "0"});
  for (const char* cost : {"full", "published"}) {
    expect_refusal("--gpus must be at most 1048576, not 1073741824",
                   {"--gpus", "1073741824", "--cost", cost});
  }
  expect_refusal("--top must be at least 1, not 0", {"--gpus", "2", "--top", "0"});
  expect_refusal("see fourfold plan --help", {"--gpus", "2", "--top", "some"});
  for (const char* tokens : {"-1", "0", "nan", "inf"}) {
    expect_refusal(concat("--tokens must be above 0, not ", tokens),
                   {"--gpus", "2", "--tokens", tokens});
  }
  expect_refusal("see fourfold plan --help", {"--gpus", "2", "--cost", "free"});
  expect_refusal("there is no magic; there are ddp", {"--gpus", "2", "--strategies", "magic"});
  expect_refusal("--keep strategy needs a strategy", {"--gpus", "2", "--keep", "strategy"});
  expect_refusal("--keep grid: x=1 is a grid of 1 ranks, and --gpus is 2",
                 {"--gpus", "2", "--keep", "grid"});
  expect_refusal("--keep colour: there is no colour", {"--gpus", "2", "--keep", "colour"});
  for (const char* range :
       {"64", "gpus=4..2", "gpus=0..2", "gpus=a..b", "ranks=1..2", "gpus=1.."}) {
    expect_refusal(concat("--sweep ", range, ": a range of numbers of GPUs such as gpus=64..16384"),
                   {"--sweep", range});
  }
  expect_refusal("--gpus does not go with --sweep", {"--sweep", "gpus=1..2", "--gpus", "2"});
  expect_refusal("--tokens does not go with --sweep", {"--sweep", "gpus=1..2", "--tokens", "1e9"});
  expect_refusal("--top does not go with --sweep", {"--sweep", "gpus=1..2", "--top", "10"});
  expect_refusal("--keep grid does not go with --sweep",
                 {"--sweep", "gpus=2..4", "--keep", "zero,grid", "--set", "parallel.x=2"});
  expect_refusal("--write-config does not go with --sweep",
                 {"--sweep", "gpus=1..2", "--write-config", work.path("best.toml")});
  expect_refusal("--html does not go with --cost published",
                 {"--gpus", "2", "--cost", "published", "--html", work.path("plan.html")});
  expect_refusal("--explain x=two: ", {"--gpus", "2", "--explain", "x=two"});
  expect_refusal("--explain w=2: ", {"--gpus", "2", "--explain", "w=2"});
  expect_refusal("--explain x=4 is a grid of 4 ranks, and --gpus is 2",
                 {"--gpus", "2", "--explain", "x=4"});
  expect_refusal("--explain pipe=8: ", {"--gpus", "8", "--explain", "pipe=8"});
  for (const char* option : {"--json", "--html", "--write-config"}) {
    expect_refusal(concat(option, " /no/such/file cannot be written"),
                   {"--gpus", "2", option, "/no/such/file"});
  }
  expect_refusal("is also the file of --json",
                 {"--gpus", "2", "--json", json_file, "--html", json_file});
}

TEST_F(PlanRefuses, WhatDoesNotFit) {
  // 7 divides neither heads nor width nor batch.
  expect_refusal("no grid of 7 ranks fits this model with a batch of 8: ", {"--gpus", "7"});
  expect_refusal("; --gpus 4 or 8 or another train.batch would do", {"--gpus", "7"});
  expect_refusal("no grid of 16 ranks fits this model with a batch of 1",
                 {"--gpus", "16", "--set", "train.batch=1", "--set", "train.micro_batch=1"});
  expect_refusal(
      " are missing; a smaller model or devices with more memory would help",
      {"--gpus", "2", "--set", "device.memory_gib=1e-5", "--set", "train.precision=bf16"});
  for (const char* words : {" needs the least, ", " a rank, and a device has 157 KiB: ",
                            " are missing; about ", " GPUs would do; with train.precision = "}) {
    expect_refusal(words, {"--gpus", "2", "--set", "device.memory_gib=1.5e-4"});
  }
  expect_refusal("nothing fits: ", {"--sweep", "gpus=1..2", "--set", "device.memory_gib=1e-5"});
}

TEST_F(PlanRefuses, BadClusters) {
  const auto with = [&](const std::string& cluster) {
    return Workspace::fourfold({"plan", work.config(), "--cluster", cluster, "--gpus", "2"});
  };
  const auto says = [&](const std::string& words, const std::string& cluster) {
    expect_refused(words, with(cluster), cluster);
  };
  says("unknown cluster \"perlmuter\"; did you mean perlmutter?", "perlmuter");
  says("none.toml", work.path("none.toml"));
  says("unknown section [model]; the sections are [cluster], [device], [network]", work.config());
  says("device.f32", changed("f32 = 2e10\n", ""));
  says("network.nic_bandwidth = -", changed("nic_bandwidth = 1e8", "nic_bandwidth = -1e8"));
  says("device.usable_memory", changed("usable_memory = 0.9", "usable_memory = 1.9"));
  says("unknown key network.nic_bandwith; did you mean nic_bandwidth?",
       changed("nic_bandwidth = 1e8", "nic_bandwith = 1e8"));
  says("cluster.gpus_per_host", changed("gpus_per_host = 2", "gpus_per_host = \"two\""));
  work.write("other.toml", "not a cluster at all");
  says("other.toml:1", work.path("other.toml"));
}

}  // namespace
}  // namespace fourfold::test
