// What a user gets from `fourfold plan`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/base/units.hpp"

#include "tests/apps/browser.hpp"
#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

/// Two devices a host with slow links, so that grids differ.
constexpr const char* kCluster = R"([cluster]
name = "pairs"
gpus_per_host = 2
hosts = 8
price_per_gpu_hour = 2.0
[device]
name = "small device"
memory_gib = 1.0
usable_memory = 0.9
memory_bandwidth = 1e10
usable_bandwidth = 0.8
bf16 = 4e10
f32 = 2e10
f64 = 1e10
product_efficiency = [[8, 0.2], [128, 0.8]]
attention_efficiency = 0.3
kernel_start = 1e-6
slowdown = 1.1
[network]
library = "fourfold"
topology = "switch"
inside_bandwidth = 1e9
inside_usable = 0.8
inside_latency = 1e-5
nics = 1
nic_bandwidth = 1e8
nic_usable = 0.8
nic_latency = 5e-5
)";

class Plan : public testing::Test {
 protected:
  Plan() { work.write("pairs.toml", kCluster); }

  /// fourfold plan with the configuration of the workspace on these devices.
  Outcome plan(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"plan", work.config(), "--cluster",
                                          work.path("pairs.toml")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Workspace::fourfold(arguments);
  }

  void expect_refusal(const std::string& words, const std::vector<std::string>& more) const {
    expect_refused(words, plan(more), join(more, " "));
  }
  void expect_refused(const std::string& words, const Outcome& outcome,
                      const std::string& command) const {
    EXPECT_EQ(outcome.status, 2) << command << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << command;
    EXPECT_EQ(lines(outcome.err).size(), 1U) << command << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << command << "\n"
                                                          << words << " is not in " << outcome.err;
    for (const char* file : {"plan.json", "plan.html", "best.toml"}) {
      EXPECT_FALSE(work.has(file)) << command;
    }
  }
  /// The description of the cluster with something else in a place.
  std::string changed(const std::string& from, const std::string& to) const {
    std::string text = kCluster;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    work.write("other.toml", text);
    return work.path("other.toml");
  }

  Workspace work;
};

int ranks_of(const json& plan) {
  int ranks = 1;
  for (const char* axis : {"x", "y", "z", "data", "pipe"}) ranks *= plan["grid"][axis].get<int>();
  return ranks;
}

TEST_F(Plan, RanksGridsAndSaysWhy) {
  const Outcome outcome =
      plan({"--gpus", "4", "--top", "4", "--tokens", "1e9", "--json", work.path("plan.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* words :
       {"4 devices (small device) of pairs, 2 a host, with 922 MiB for tensors each; 22.1 k "
        "parameters, 128 tokens a step",
        "waits for", "of limit", "mfu", "tokens/s", "The second is ", "1 G tokens take ",
        "and cost ", "(2 for each device and hour)", "rejected ", " candidates can be split so"}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
  }
  const json result = work.json("plan.json");
  ASSERT_EQ(result["plans"].size(), 4U);
  EXPECT_EQ(result["gpus"], 4);
  double before = 0;
  for (const json& one : result["plans"]) {
    EXPECT_EQ(ranks_of(one), 4);
    EXPECT_GE(one["step_seconds"], before) << "the fastest first";
    before = one["step_seconds"];
    EXPECT_NEAR(one["compute_seconds"].get<double>() + one["exposed_seconds"].get<double>(), before,
                1e-9 * before);
    EXPECT_GT(one["memory_bytes"], 0);
    EXPECT_LE(one["memory_bytes"], result["memory_limit_bytes"]);
    const double mfu = result["model_flops"].get<double>() / (before * 4 * 1e10);  // in float64
    EXPECT_NEAR(one["mfu"].get<double>(), mfu, 1e-9 * mfu);
    EXPECT_NEAR(one["tokens_per_second"].get<double>() * before, 128, 1e-6);
    const double days = 1e9 / one["tokens_per_second"].get<double>() / 86400;
    EXPECT_NEAR(one["days"].get<double>(), days, 1e-9 * days);
    EXPECT_NEAR(one["price"].get<double>(), days * 24 * 4 * 2, 1e-6 * days);
    EXPECT_NE(outcome.out.find(to_string(Seconds(before))), std::string::npos);
  }
  EXPECT_FALSE(result["rejected"].empty());
}

TEST_F(Plan, HasTheBestOfEachStrategyByName) {
  const Outcome outcome =
      plan({"--gpus", "4", "--top", "2", "--strategies", "all", "--json", work.path("plan.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json result = work.json("plan.json");
  ASSERT_EQ(result["strategies"].size(), 10U);
  int planned = 0;
  for (const json& one : result["strategies"]) {
    const std::string name = one["strategy"];
    EXPECT_NE(outcome.out.find("\n" + name + " "), std::string::npos) << name;
    if (one.contains("refused")) {
      EXPECT_EQ(name, "3d");  // 4 is no cube
      continue;
    }
    ++planned;
    EXPECT_EQ(ranks_of(one), 4) << name;
    EXPECT_GE(one["step_seconds"].get<double>() * (1 + 1e-9),
              result["plans"][0]["step_seconds"].get<double>())
        << name;
  }
  EXPECT_EQ(planned, 9);
}

TEST_F(Plan, ExplainsAGrid) {
  const Outcome outcome = plan(
      {"--gpus", "4", "--top", "1", "--explain", "y=2,data=2", "--json", work.path("plan.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json one = work.json("plan.json")["explained"];
  EXPECT_EQ(one["grid"]["y"], 2);
  EXPECT_EQ(one["grid"]["data"], 2);
  for (const char* words :
       {"\n4d y=2,data=2", "  step ", "  compute ", "  exposed ", "    along ", "  memory ",
        "    parameters ", "    gradients ", "    optimizer ", "    activations "}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
  }
}

TEST_F(Plan, LeavesPipelinesOutIfAskedTo) {
  const auto deepest = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--gpus", "4",      "--top",
                                          "100",    "--json", work.path("plan.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    int pipe = 0;
    const json result = work.json("plan.json");
    for (const json& one : result["plans"]) {
      pipe = std::max(pipe, one["grid"]["pipe"].get<int>());
    }
    return pipe;
  };
  EXPECT_GT(deepest({}), 1);
  EXPECT_EQ(deepest({"--keep", "pipe"}), 1);
}

TEST_F(Plan, ExplainsWhyAGridDoesNotFit) {
  const Outcome outcome =
      plan({"--gpus", "4", "--top", "1", "--explain", "data=4", "--set", "device.memory_gib=4e-4",
            "--keep", "checkpointing,zero,micro_batch"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("This does not fit: "), std::string::npos) << outcome.out;
}

TEST_F(Plan, WritesAConfigurationThatRuns) {
  const Outcome outcome = plan({"--gpus", "2", "--top", "1", "--json", work.path("plan.json"),
                                "--write-config", work.path("best.toml")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome run =
      Workspace::fourfold({"train", work.path("best.toml"), "--out", work.path("run"), "--json",
                           work.path("run.json"), "--set", "train.steps=2"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(work.json("run.json")["ranks"], 2);
  const json best = work.json("plan.json")["plans"][0];
  for (const auto& [axis, size] : best["grid"].items()) {
    if (size == 1) continue;
    EXPECT_NE(work.json("run.json")["grid"].get<std::string>().find(concat(axis, "=", size.dump())),
              std::string::npos);
  }
  // What it needs is what was predicted.
  const double peak = work.json("run.json")["summary"]["peak_bytes"];
  EXPECT_NEAR(best["memory_bytes"].get<double>() / peak, 1, 0.03);
}

TEST_F(Plan, DrawsScalingCurves) {
  const Outcome outcome = plan(
      {"--sweep", "gpus=1..4", "--json", work.path("plan.json"), "--html", work.path("plan.html")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json points = work.json("plan.json")["points"];
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0]["gpus"], 1);
  EXPECT_EQ(points[2]["gpus"], 4);
  EXPECT_EQ(points[0]["efficiency"], 1);
  EXPECT_EQ(lines(outcome.out).size(), 4U) << outcome.out;
  ASSERT_TRUE(Browser::installed()) << "chromium is missing: scripts/install-deps.sh test";
  const Outcome page = Browser(work.path("browser")).document(work.path("plan.html"));
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_EQ(page.err.find("CONSOLE"), std::string::npos) << page.err;
  EXPECT_EQ(elements(page.out, "h1"), std::vector<std::string>{"Scaling on pairs"});
  EXPECT_EQ(elements(page.out, "circle class=\"dot training").size(), 6U) << "two curves";
}

TEST_F(Plan, SaysWhatTheClusterDoesNotHave) {
  const std::string small = changed("hosts = 8", "hosts = 1");
  const std::string words = "pairs has 2 devices (1 host with 2 each); this is for a larger one";
  for (const std::vector<std::string>& size :
       {std::vector<std::string>{"--gpus", "4"}, {"--sweep", "gpus=2..4"}}) {
    const Outcome outcome = Workspace::fourfold(
        {"plan", work.config(), "--cluster", small, "--top", "1", size[0], size[1]});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(words), std::string::npos) << outcome.out;
  }
}

TEST_F(Plan, HasThePublishedModelForComparison) {
  const Outcome outcome =
      plan({"--gpus", "4", "--cost", "published", "--json", work.path("plan.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("This is the published model"), std::string::npos) << outcome.out;
  EXPECT_FALSE(work.json("plan.json")["plans"].empty());
}

/// Rows of the table with this id, cell by cell.
std::vector<std::vector<std::string>> table(const std::string& html, const std::string& id) {
  const auto begin = html.find("<table id=\"" + id + "\"");
  EXPECT_NE(begin, std::string::npos) << id;
  if (begin == std::string::npos) return {};
  const std::string text = html.substr(begin, html.find("</table>", begin) - begin);
  std::vector<std::vector<std::string>> rows;
  for (auto at = text.find("<tr>"); at != std::string::npos; at = text.find("<tr>", at + 1)) {
    const std::vector<std::string> cells =
        elements(text.substr(at, text.find("</tr>", at) - at), "td");
    if (!cells.empty()) rows.push_back(cells);
  }
  return rows;
}

/// A row of the page against an entry of the JSON file, from the column of the step on.
void expect_same(const std::vector<std::string>& row, std::size_t step, const json& plan) {
  ASSERT_GT(row.size(), step + 3);
  EXPECT_EQ(row[step], to_string(Seconds(plan["step_seconds"])));
  EXPECT_EQ(row[step + 1], to_string(Seconds(plan["compute_seconds"])));
  EXPECT_EQ(row[step + 2], to_string(Seconds(plan["exposed_seconds"])));
  EXPECT_EQ(row[step + 3], to_string(Bytes(plan["memory_bytes"].get<std::int64_t>())));
}

TEST_F(Plan, HasAPageThatABrowserShows) {
  ASSERT_TRUE(Browser::installed()) << "chromium is missing: scripts/install-deps.sh test";
  const Outcome outcome =
      plan({"--gpus", "4", "--top", "5", "--strategies", "ddp,zero3,3d", "--explain", "x=2,y=2",
            "--json", work.path("plan.json"), "--html", work.path("plan.html")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json result = work.json("plan.json");
  const Browser browser(work.path("browser"));
  const Outcome page = browser.document(work.path("plan.html"));
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_EQ(page.err.find("CONSOLE"), std::string::npos) << page.err;
  EXPECT_EQ(elements(page.out, "h1"), std::vector<std::string>{"4 GPUs of pairs"});
  const std::vector<std::string> sections = {"The best plans",
                                             "The best of each strategy",
                                             "The grid x=2,y=2",
                                             "Memory of the fullest rank",
                                             "The best plan, as predicted",
                                             "What was rejected"};
  EXPECT_EQ(elements(page.out, "h2"), sections);
  const auto plans = table(page.out, "plans");
  ASSERT_EQ(plans.size(), 5U);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ(plans[i][0], std::to_string(i + 1));
    EXPECT_EQ(plans[i][1], result["plans"][i]["strategy"]);
    expect_same(plans[i], 4, result["plans"][i]);
  }
  const auto by_name = table(page.out, "by-name");
  ASSERT_EQ(by_name.size(), 3U);
  expect_same(by_name[0], 3, result["strategies"][0]);
  expect_same(by_name[1], 3, result["strategies"][1]);
  EXPECT_EQ(by_name[2], (std::vector<std::string>{"3d", result["strategies"][2]["refused"]}));
  const auto rejected = table(page.out, "rejected");
  EXPECT_EQ(rejected.size(), result["rejected"].size());
  for (const auto& row : rejected) EXPECT_EQ(row[1], result["rejected"][row[0]].dump());
  const std::vector<std::string> legend = elements(page.out, "li");
  for (const char* entry : {"compute", "parameters", "gradients", "optimizer", "activations"}) {
    EXPECT_NE(std::find(legend.begin(), legend.end(), entry), legend.end()) << entry;
  }
  const std::vector<std::string> texts = elements(page.out, "text");
  EXPECT_NE(std::find(texts.begin(), texts.end(), "milliseconds since the step began"),
            texts.end());
  for (const json& one : result["plans"]) {  // behind its bar
    EXPECT_NE(std::find(texts.begin(), texts.end(), to_string(Seconds(one["step_seconds"]))),
              texts.end());
  }
  for (const char* word : {"NaN", "undefined", "nan<", "inf<", "http"}) {
    EXPECT_EQ(page.out.find(word), std::string::npos) << word;
  }
}

TEST_F(Plan, RefusesBadOptions) {
  const std::string json_file = work.path("plan.json");
  expect_refusal("--gpus N is missing", {});
  expect_refusal("--gpus must be at least 1, not 0", {"--gpus", "0"});
  expect_refusal("--top must be at least 1, not 0", {"--gpus", "2", "--top", "0"});
  expect_refusal("see fourfold plan --help", {"--gpus", "2", "--top", "some"});
  expect_refusal("see fourfold plan --help", {"--gpus", "2", "--tokens", "-1"});
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

TEST_F(Plan, RefusesWhatDoesNotFit) {
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

TEST_F(Plan, RefusesBadClusters) {
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
