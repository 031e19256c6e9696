// The page of `fourfold train --report`, as a person sees it in a browser.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "fourfold/base/units.hpp"

#include "tests/apps/browser.hpp"
#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string formatted(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// Each row of the table with this id.
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

void expect_figures(const std::string& html, const json& result) {
  const std::vector<std::string> names = elements(html, "dt");
  const std::vector<std::string> values = elements(html, "dd");
  const std::vector<std::string> expected = {"loss", "validation loss", "tokens/s",
                                             "mfu",  "median step",     "exposed"};
  ASSERT_EQ(names, expected);
  ASSERT_EQ(values.size(), names.size());
  EXPECT_EQ(values[0], formatted("%.4f", result["steps"].back()["loss"]));
  EXPECT_EQ(values[1], formatted("%.4f", result["summary"]["val_loss"]));
  EXPECT_NE(values[5].find(" %"), std::string::npos);
}

/// Every row is one of the results, divided by the number of steps, and none is missing.
void expect_communication(const std::string& html, const json& result) {
  const auto steps = static_cast<std::int64_t>(result["steps"].size());
  const double share = 1.0 / static_cast<double>(steps);
  std::vector<std::vector<std::string>> expected;
  for (const json& row : result["communication"]) {
    if (row["group_size"] == 1) continue;
    expected.push_back({row["axes"], row["op"], concat(row["group_size"].get<int>()),
                        formatted("%.6g", row["calls"].get<double>() * share),
                        to_string(Bytes(row["payload_bytes"].get<std::int64_t>() / steps)),
                        to_string(Bytes(row["wire_bytes"].get<std::int64_t>() / steps)),
                        to_string(Seconds(row["seconds"].get<double>()) * share),
                        to_string(Seconds(row["exposed_seconds"].get<double>()) * share)});
  }
  std::vector<std::vector<std::string>> rows = table(html, "communication");
  std::sort(rows.begin(), rows.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_GE(rows.size(), 3U);
  EXPECT_EQ(rows, expected);
}

void expect_memory(const std::string& html, const json& result) {
  const std::vector<std::vector<std::string>> rows = table(html, "memory");
  for (const auto& [name, bytes] : result["memory"].items()) {
    const std::vector<std::string> row = {name, to_string(Bytes(bytes.get<std::int64_t>()))};
    EXPECT_NE(std::find(rows.begin(), rows.end(), row), rows.end()) << name;
  }
}

/// Date, host, versions, command line, parameters, data and total time.
void expect_facts(const std::string& html, const json& result, const Workspace& work) {
  std::map<std::string, std::string> facts;
  for (const auto& row : table(html, "facts")) facts[row.at(0)] = row.at(1);
  const json& run = result["run"];
  EXPECT_EQ(facts["started"], run["started"]);
  EXPECT_EQ(facts["started"].substr(0, 2), "20");
  EXPECT_EQ(facts["total time"].back(), 's');
  EXPECT_EQ(facts["command"], run["command"]);
  for (const char* word : {"train", "--grid x=2", "--report", "train.precision=float32"}) {
    EXPECT_NE(facts["command"].find(word), std::string::npos) << facts["command"];
  }
  EXPECT_EQ(facts["hosts"], run["hosts"][0]["host"].get<std::string>() + " (2 ranks)");
  EXPECT_EQ(facts["strategy"], "4d");
  EXPECT_NE(facts["grid"].find("x=2"), std::string::npos);
  EXPECT_EQ(facts["parameters"], "22,080");
  EXPECT_EQ(facts["data"].find(work.path("text.txt") + ": "), 0U) << facts["data"];
  for (const char* name : {"Fourfold", "libtorch", "BLAS", "MPI"}) {
    EXPECT_EQ(facts[name], run["versions"][name]) << name;
    EXPECT_FALSE(facts[name].empty()) << name;
  }
}

void expect_charts(const std::string& html, std::size_t steps) {
  EXPECT_EQ(elements(html, "circle class=\"dot training").size(), steps);
  EXPECT_EQ(elements(html, "circle class=\"dot validation").size(), 2U);
  EXPECT_EQ(elements(html, "g class=\"bar").size(), steps - 1);
  EXPECT_GE(elements(html, "rect class=\"compute").size(), steps - 1);
  const std::vector<std::string> legend = elements(html, "li");
  for (const char* entry :
       {"training", "validation", "compute", "waiting", "waiting for x", "communication over x"}) {
    EXPECT_TRUE(contains(legend, entry)) << entry;
  }
  const std::vector<std::string> texts = elements(html, "text");
  for (const char* label : {"step", "loss", "milliseconds", "milliseconds since the step began",
                            "compute", "x activations"}) {
    EXPECT_TRUE(contains(texts, label)) << label;
  }
  for (const char* rank : {"rank 0 (host ", "rank 1 (host "}) {
    EXPECT_EQ(std::count_if(texts.begin(), texts.end(),
                            [&](const std::string& text) { return text.starts_with(rank); }),
              1)
        << rank;
  }
}

/// Width and height of a PNG file, from its header.
std::pair<std::uint32_t, std::uint32_t> size_of_picture(const std::string& png) {
  if (png.size() < 24 || png.compare(1, 3, "PNG") != 0) return {};
  std::array<unsigned char, 8> numbers{};
  std::memcpy(numbers.data(), png.data() + 16, numbers.size());
  const auto read = [&](std::size_t at) {
    return std::uint32_t{numbers[at]} << 24 | std::uint32_t{numbers[at + 1]} << 16 |
           std::uint32_t{numbers[at + 2]} << 8 | std::uint32_t{numbers[at + 3]};
  };
  return {read(0), read(4)};
}

TEST(Report, IsWhatAPersonSeesInABrowser) {
  ASSERT_TRUE(Browser::installed()) << "chromium is missing: scripts/install-deps.sh test";
  const Workspace work;
  const Outcome run = work.train("run", {"--grid", "x=2", "--report", work.path("page.html"),
                                         "--set", "train.precision=float32"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("the report is in "), std::string::npos) << run.out;

  const Browser browser(work.path("browser"));
  const Outcome page = browser.document(work.path("page.html"));
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_EQ(page.err.find("CONSOLE"), std::string::npos) << page.err;
  EXPECT_EQ(elements(page.out, "h1"), std::vector<std::string>{"gpt"});
  const std::vector<std::string> sections = {"Loss",
                                             "Time of each step",
                                             "One step, rank by rank",
                                             "Communication of a mean step of rank 0",
                                             "Memory of the fullest rank",
                                             "What was run",
                                             "Configuration"};
  EXPECT_EQ(elements(page.out, "h2"), sections);
  const json result = work.json("run.json");
  EXPECT_NE(page.out.find(result["grid"].get<std::string>()), std::string::npos);
  expect_figures(page.out, result);
  expect_communication(page.out, result);
  expect_memory(page.out, result);
  expect_facts(page.out, result, work);
  expect_charts(page.out, result["steps"].size());
  EXPECT_EQ(elements(page.out, "pre"), std::vector<std::string>{work.read("run/config.toml")});
  for (const char* word : {"NaN", "undefined", "nan<", "inf<"}) {
    EXPECT_EQ(page.out.find(word), std::string::npos) << word;
  }

  const Outcome picture = browser.screenshot(work.path("page.html"), work.path("page.png"));
  ASSERT_EQ(picture.status, 0) << picture.err;
  const std::string png = work.read("page.png");
  EXPECT_EQ(size_of_picture(png), std::pair(1280U, 2400U));
  work.write("blank.html", "<!DOCTYPE html><title>nothing</title>");
  ASSERT_EQ(browser.screenshot(work.path("blank.html"), work.path("blank.png")).status, 0);
  // A picture of one colour packs to almost nothing.
  EXPECT_GT(png.size(), 5 * work.read("blank.png").size());
}

/// What the test above relies on: that the console is heard.
TEST(Report, WouldNoticeAnErrorInAScript) {
  ASSERT_TRUE(Browser::installed()) << "chromium is missing: scripts/install-deps.sh test";
  const Workspace work;
  work.write("bad.html", "<!DOCTYPE html><p>a</p><script>nonsense()</script>");
  const Outcome page = Browser(work.path("browser")).document(work.path("bad.html"));
  EXPECT_NE(page.err.find("CONSOLE"), std::string::npos) << page.err;
  EXPECT_EQ(elements(page.out, "p"), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace fourfold::test
