// fourfold checkpoint: lists, verifies and exports the checkpoints of a run.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"
#include "fourfold/base/units.hpp"
#include "fourfold/checkpoint/folder.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/train/model_folder.hpp"
#include "fourfold/train/run_folder.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/options.hpp"

namespace fourfold::app {

namespace {

struct CheckpointOptions {
  std::string folder;
  std::int64_t step = 0;
  std::string out;
  std::string json;
};

/// A checkpoint and what is wrong with it.
struct Looked {
  checkpoint::Listed listed;
  formats::Manifest manifest;
  std::string wrong;
};

/// With `all`, every byte is read.
std::vector<Looked> look(const CheckpointOptions& options, bool all) {
  if (!train::is_run_folder(options.folder)) {
    throw ConfigError(concat(options.folder, " is not the folder of a run"));
  }
  std::vector<Looked> found;
  for (const checkpoint::Listed& one :
       checkpoint::list(checkpoint::checkpoints_of(options.folder))) {
    if (options.step > 0 && one.step != options.step) continue;
    Looked looked{one, {}, ""};
    try {
      looked.manifest = formats::read_manifest(one.path);
      if (all) looked.wrong = checkpoint::damage(one.path, looked.manifest);
    } catch (const Error& error) {
      looked.wrong = error.what();
    }
    found.push_back(std::move(looked));
  }
  if (options.step > 0 && found.empty()) {
    throw ConfigError(concat(options.folder, " has no checkpoint of step ", options.step,
                             ": fourfold checkpoint list ", options.folder,
                             " shows what there is"));
  }
  return found;
}

void write_json(const std::string& path, const std::vector<Looked>& found) {
  if (path.empty()) return;
  nlohmann::ordered_json json = {{"checkpoints", nlohmann::ordered_json::array()}};
  for (const Looked& one : found) {
    json["checkpoints"].push_back({{"step", one.listed.step},
                                   {"path", one.listed.path.string()},
                                   {"samples", one.manifest.samples},
                                   {"files", one.manifest.files.size()},
                                   {"bytes", one.manifest.bytes()},
                                   {"damage", one.wrong}});
  }
  write_text(path, json.dump(2) + "\n");
}

/// Returns the exit status: 1 if something is damaged.
int show(const CheckpointOptions& options, bool all) {
  check_outputs({{"--json", options.json}});
  const std::vector<Looked> found = look(options, all);
  write_json(options.json, found);
  if (found.empty()) {
    std::printf("%s has no checkpoint\n", options.folder.c_str());
    return 0;
  }
  TextTable table({"step", "samples", "files", "bytes", all ? "verified" : "manifest"}, 0);
  bool good = true;
  for (const Looked& one : found) {
    good = good && one.wrong.empty();
    table.add({concat(one.listed.step), concat(one.manifest.samples),
               concat(one.manifest.files.size()), concat(Bytes(one.manifest.bytes())),
               one.wrong.empty() ? "good" : "damaged"});
  }
  std::fputs(table.text().c_str(), stdout);
  for (const Looked& one : found) {
    if (!one.wrong.empty()) print_error(one.wrong);
  }
  return good ? 0 : 1;
}

int export_one(const CheckpointOptions& options) {
  comm::World world = comm::self::open({});
  train::export_model(world, options.folder, options.step,
                      options.out.empty() ? options.folder : options.out,
                      [](const std::string& line) { std::printf("%s\n", line.c_str()); });
  return 0;
}

}  // namespace

void add_checkpoint(CLI::App& app, Command& command) {
  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* parent = app.add_subcommand("checkpoint", "lists, verifies and exports checkpoints");
  parent->require_subcommand(1);
  const auto add = [&](const char* name, const char* about,
                       const std::function<int(const CheckpointOptions&)>& run) {
    CLI::App* one = parent->add_subcommand(name, about);
    one->add_option("folder", options->folder, "the folder of a run")
        ->required()
        ->option_text("RUN_DIR");
    one->add_option("--step", options->step, "only the checkpoint of this step")
        ->check(CLI::PositiveNumber);
    one->callback([options, run, &command] {
      command = [options, run](char** /*argv*/) { return run(*options); };
    });
    return one;
  };
  for (CLI::App* one : {add("list", "what there is", [](const auto& o) { return show(o, false); }),
                        add("verify", "reads everything and compares checksums",
                            [](const auto& o) { return show(o, true); })}) {
    one->add_option("--json", options->json, "write the results to this file");
  }
  add("export", "writes the model of a checkpoint for other programs", export_one)
      ->add_option("--out", options->out, "the folder to write to; without it that of the run");
}

}  // namespace fourfold::app
