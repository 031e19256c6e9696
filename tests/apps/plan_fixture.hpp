// Plans for a small cluster, as tests of the program ask for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {

/// Two devices a host with slow links, so that grids differ.
inline constexpr const char* kPairs = R"([cluster]
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
  Plan() { work.write("pairs.toml", kPairs); }

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
    std::string text = kPairs;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    work.write("other.toml", text);
    return work.path("other.toml");
  }

  Workspace work;
};

}  // namespace fourfold::test
