// A folder with a text, a configuration and whatever a test of the program makes of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"

#include "tests/support/process.hpp"

namespace fourfold::test {

class Workspace {
 public:
  Workspace() {
    folder_ =
        std::filesystem::temp_directory_path() / concat("fourfold-app-", getpid(), "-", ++made);
    std::filesystem::create_directories(folder_);
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += concat("The number ", i, " comes before the number ", i + 1, " and after ", i - 1,
                     ".\nNobody counts ", i * 7 % 13, " sheep in the ", i % 5, " fields.\n");
    }
    write("text.txt", text);
    write("gpt.toml",
          concat(kModel, "[data]\ntext = \"", path("text.txt"), "\"\nvalidation = 0.1\n",
                 "cache = \"", path("cache"), "\"\n", kTraining));
  }
  ~Workspace() {
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(cache());
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  static constexpr const char* kModel =
      "[model]\nvocab = 300\nwidth = 24\nheads = 4\nlayers = 2\ncontext = 16\ndropout = 0.1\n";
  static constexpr const char* kTraining =
      "[train]\nsteps = 4\nbatch = 8\nmicro_batch = 4\nvalidate_every = 2\nvalidate_batches = 2\n"
      "precision = \"float64\"\n[optim]\nlr = 1e-2\nmin_lr = 1e-3\nwarmup = 2\n";

  /// Makes a folder of a run that has not ended: half a line is all that it wrote last.
  void leave_unfinished(const std::string& finished, const std::string& name) const {
    std::filesystem::copy(path(finished), path(name), std::filesystem::copy_options::recursive);
    for (const char* file : {"model.safetensors", "config.json", "generation_config.json"}) {
      std::filesystem::remove(folder_ / name / file);
    }
    const std::string metrics = read(name + "/metrics.jsonl");
    write(name + "/metrics.jsonl",
          metrics.substr(0, metrics.rfind("{\"step\":3,")) + "{\"step\":3,\"lo");
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string config() const { return path("gpt.toml"); }
  bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read(name)); }

  /// Runs the program with these arguments. What it keeps about the machine is this test's alone.
  static Outcome fourfold(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FOURFOLD_PROGRAM);
    return run_program(arguments, {"XDG_CACHE_HOME=" + cache()});
  }
  /// fourfold train, with its results in NAME.json and its folder NAME.
  Outcome train(const std::string& name, const std::vector<std::string>& more = {}) const {
    return fourfold(train_arguments(name, more));
  }
  std::vector<std::string> train_arguments(const std::string& name,
                                           const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"train",    config(), "--out",
                                          path(name), "--json", path(name + ".json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

 private:
  static std::string cache() {
    return (std::filesystem::temp_directory_path() / concat("fourfold-app-", getpid(), "-cache"))
        .string();
  }

  static inline int made = 0;
  std::filesystem::path folder_;
};

}  // namespace fourfold::test
