// What a user gets from `fourfold plan`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/base/units.hpp"

#include "tests/apps/browser.hpp"
#include "tests/apps/plan_fixture.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

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

/// A grid that is kept is that of some strategies only.
TEST_F(Plan, KeepsAGridForTheStrategiesThatHaveIt) {
  const Outcome outcome = plan({"--gpus", "4", "--set", "parallel.x=4", "--keep", "grid",
                                "--strategies", "all", "--json", work.path("plan.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json result = work.json("plan.json");
  ASSERT_EQ(result["plans"].size(), 1U);
  EXPECT_EQ(result["plans"][0]["grid"]["x"], 4);
  ASSERT_EQ(result["strategies"].size(), 10U);
  for (const json& one : result["strategies"]) {
    const std::string name = one["strategy"];
    EXPECT_EQ(one.value("refused", ""), name == "4d" ? "" : "does not have the grid x=4") << name;
  }
}

/// Each strategy on a grid of its own, as the tables of docs/results/planning.md compare them.
TEST_F(Plan, KeepsTheGridOfAStrategy) {
  for (const auto& [strategy, sizes] : std::vector<std::pair<std::string, std::string>>{
           {"3d", "x=2,y=2,z=2"}, {"summa2d", "x=2,y=2,data=2"}, {"megatron", "y=4,data=2"}}) {
    std::vector<std::string> arguments = {"--gpus", "8",
                                          "--set",  "parallel.strategy=" + strategy,
                                          "--keep", "strategy,grid",
                                          "--json", work.path("plan.json")};
    for (const std::string& size : split(sizes, ',')) {
      arguments.insert(arguments.end(), {"--set", "parallel." + size});
    }
    const Outcome outcome = plan(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json plans = work.json("plan.json")["plans"];
    ASSERT_EQ(plans.size(), 1U) << strategy;
    EXPECT_EQ(plans[0]["strategy"], strategy);
    EXPECT_EQ(ranks_of(plans[0]), 8);
    EXPECT_NE(outcome.out.find(sizes), std::string::npos) << outcome.out;
  }
}

/// Then the configuration may leave the vocabulary out, and nothing has read the data.
TEST_F(Plan, KnowsTheVocabularyOfBytes) {
  work.write("bytes.toml", concat("[model]\nwidth = 24\nheads = 4\nlayers = 2\ncontext = 16\n",
                                  "[data]\ntokenizer = \"bytes\"\n", Workspace::kTraining));
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "plan",   work.path("bytes.toml"), "--cluster", work.path("pairs.toml"), "--gpus", "2",
        "--json", work.path("plan.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Workspace::fourfold(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return work.json("plan.json")["parameters"].get<std::int64_t>();
  };
  const std::int64_t found = planned({"--write-config", work.path("best.toml")});
  EXPECT_EQ(found, planned({"--set", "model.vocab=256"}));
  EXPECT_NE(work.read("best.toml").find("vocab = 256"), std::string::npos);
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
    const Outcome outcome =
        Workspace::fourfold({"plan", work.config(), "--cluster", small, size[0], size[1]});
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

}  // namespace
}  // namespace fourfold::test
