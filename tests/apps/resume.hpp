// Runs that are saved, ended and gone on with, as their user sees them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"
#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {

class Resume : public testing::Test {
 protected:
  static constexpr int kSteps = 12;
  static constexpr double kSkipped = -1;  // in the place of the loss of a step that updates nothing

  /// The losses by step, and fails if a step is there twice or out of order.
  std::map<std::int64_t, double> losses(const std::string& name) const {
    std::map<std::int64_t, double> found;
    std::int64_t last = 0;
    for (const std::string& line : lines(work.read(name + "/metrics.jsonl"))) {
      const nlohmann::json one = nlohmann::json::parse(line);
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
    std::filesystem::copy(work.path(run), work.path(name),
                          std::filesystem::copy_options::recursive);
    for (int later = step + 3; later <= kSteps; later += 3) {
      std::filesystem::remove_all(std::filesystem::path(work.path(name)) / "checkpoints" /
                                  concat("step-0000000", later));
      std::filesystem::remove_all(std::filesystem::path(work.path(name)) / "checkpoints" /
                                  concat("step-000000", later));
    }
    for (const char* file : {"model.safetensors", "config.json"}) {
      std::filesystem::remove(std::filesystem::path(work.path(name)) / file);
    }
    work.write(name + "/metrics.jsonl", work.read(name + "/metrics.jsonl") + "{\"step\":13,\"lo");
  }

  const Workspace work;
};

/// The command, with its standard error in a file that can be read while it runs.
std::vector<std::string> with_errors_in(const std::string& file,
                                        const std::vector<std::string>& command);

/// Waits until a run has done so many steps; on a busy machine ranks take long to start.
bool wait_for_steps(const Workspace& work, const std::string& name, std::size_t steps);

/// Whether a process that this one has started has ended. It may still have its number.
bool has_ended(pid_t process);

}  // namespace fourfold::test
