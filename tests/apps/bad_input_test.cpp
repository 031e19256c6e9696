// Bad input: one line on standard error that says what is wrong, exit status 2, and nothing left
// behind.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

struct Case {
  std::string words;  ///< that the line must have
  std::vector<std::string> arguments;
};

void expect_refusal(const Workspace& work, const Case& c) {
  const Outcome outcome = Workspace::fourfold(c.arguments);
  const std::string command = join(c.arguments, " ");
  EXPECT_EQ(outcome.status, 2) << command << "\n" << outcome.err;
  EXPECT_EQ(lines(outcome.err).size(), 1U) << command << "\n" << outcome.err;
  EXPECT_NE(outcome.err.find(c.words), std::string::npos)
      << command << "\n"
      << c.words << " is not in " << outcome.err;
  EXPECT_FALSE(work.has("run")) << command;
  EXPECT_FALSE(work.has("run.json")) << command;
}

/// fourfold train with the workspace's configuration.
std::vector<std::string> train(const Workspace& work, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"train",          work.config(), "--out",
                                        work.path("run"), "--json",      work.path("run.json")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string token_file(std::int32_t magic, std::int32_t count, int written, char token) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = 1;
  header[2] = count;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  for (int i = 0; i < written; ++i) bytes += {token, '\1'};
  return bytes;
}

TEST(BadInput, CommandLine) {
  const Workspace work;
  const std::vector<Case> cases = {
      {"unknown command traim; did you mean train? See fourfold --help", {"traim"}},
      {"unknown command traim; did you mean train?", {"traim", work.config(), "--ranks", "2"}},
      {"unknown command deploy; there are train, sample, plan, calibrate, bench, dryrun, "
       "checkpoint, autopsy, info, "
       "keys",
       {"deploy"}},
      {"unknown option --rank of fourfold train; did you mean --ranks? See fourfold train --help",
       train(work, {"--rank", "2"})},
      {"unknown option --rank of fourfold train", train(work, {"--rank=2"})},
      {"unknown option --frobnicate of fourfold bench; see fourfold bench --help",
       {"bench", work.config(), "--frobnicate"}},
      {"see fourfold train --help", {"train"}},
      {"see fourfold train --help", train(work, {"--ranks", "many"})},
      {"see fourfold train --help", train(work, {"--ranks"})},
      {"see fourfold sample --help", {"sample"}},
      {"see fourfold --help", {"--hlep"}},
      {"--grid does not go with bench", {"bench", work.config(), "--grid", "x=2"}},
      {"unknown section [trian]; did you mean [train]?", {"keys", "trian"}},
  };
  for (const Case& c : cases) expect_refusal(work, c);
}

TEST(Help, SaysWhatThereIs) {
  const Outcome nothing = Workspace::fourfold({});
  EXPECT_EQ(nothing.status, 2);
  const Outcome asked = Workspace::fourfold({"--help"});
  EXPECT_EQ(asked.status, 0);
  EXPECT_EQ(nothing.err, asked.out) << "the help, though nobody asked for it";
  for (const char* command : {"train", "sample", "bench", "dryrun", "info", "keys"}) {
    EXPECT_NE(asked.out.find(concat("\n  ", command, " ")), std::string::npos) << asked.out;
  }
  for (const char* command : {"train", "bench", "dryrun"}) {
    const Outcome help = Workspace::fourfold({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("fourfold keys"), std::string::npos) << help.out;
    const bool offers_grid = help.out.find("--grid") != std::string::npos;
    EXPECT_EQ(offers_grid, std::string(command) != "bench") << help.out;
  }
  const Outcome keys = Workspace::fourfold({"keys", "train"});
  EXPECT_EQ(keys.status, 0);
  EXPECT_NE(keys.out.find("train.init_from"), std::string::npos) << keys.out;
  EXPECT_EQ(keys.out.find("optim.lr"), std::string::npos) << keys.out;
}

TEST(BadInput, Configuration) {
  const Workspace work;
  const auto set = [&](const std::string& what) { return train(work, {"--set", what}); };
  work.write("broken.toml", "[model\nwidth = 3\n");
  work.write("unknown.toml", "[modle]\nwidth = 3\n");
  const std::vector<Case> cases = {
      {"none.toml", {"train", work.path("none.toml")}},
      {"broken.toml:1", {"train", work.path("broken.toml")}},
      {"unknown section [modle]; did you mean [model]?", {"train", work.path("unknown.toml")}},
      {"unknown key train.step; did you mean train.steps?", set("train.step=3")},
      {"train.steps = \"many\"", set("train.steps=many")},
      {"train.steps = 0", set("train.steps=0")},
      {"optim.lr = nan", set("optim.lr=nan")},
      {"model.dropout = 1.5", set("model.dropout=1.5")},
      {"model.width = 25", set("model.width=25")},
      {"train.precision", set("train.precision=float8")},
      {"train.micro_batch", set("train.micro_batch=3")},
      {"optim.min_lr", set("optim.min_lr=1")},
      {"optim.warmup", set("optim.warmup=9")},
      {"optim.betas", set("optim.betas=[0.9]")},
      {"--set", set("steps")},
      {"parallel.strategy", set("parallel.strategy=magic")},
      {"--grid", train(work, {"--grid", "x=two"})},
  };
  for (const Case& c : cases) expect_refusal(work, c);
}

TEST(BadInput, Gpus) {
  const Workspace work;
  expect_refusal(work, {"device.kind = \"cuda\"", train(work, {"--set", "device.kind=cuda"})});
  expect_refusal(
      work, {"device.kind = \"cuda\"", train(work, {"--ranks", "2", "--set", "device.kind=cuda"})});
  expect_refusal(work,
                 {"device.kind = \"cuda\"", {"bench", work.config(), "--set", "device.kind=cuda"}});
  expect_refusal(work, {"device.kind = \"cuda\"", {"calibrate", "--kind", "cuda"}});
  expect_refusal(work, {"--kind must be cpu or cuda, not gpu", {"calibrate", "--kind", "gpu"}});
}

TEST(BadInput, TracedSteps) {
  const Workspace work;
  const auto steps = [&](const std::string& text) {
    return train(work, {"--trace", work.path("trace"), "--trace-steps", text});
  };
  const std::vector<Case> cases = {
      {"the first step is behind the last", steps("3-2")},
      {"the run has the steps 1 to 4", steps("0-1")},
      {"the run has the steps 1 to 4", steps("4-5")},
      {"--trace-steps two is not a step", steps("two")},
      {"--trace-steps 1-2-3 is not a step", steps("1-2-3")},
      {"--trace-steps needs --trace or --report", train(work, {"--trace-steps", "1-2"})},
  };
  for (const Case& c : cases) expect_refusal(work, c);
  EXPECT_FALSE(work.has("trace"));
}

TEST(BadInput, Grids) {
  const Workspace work;
  const std::vector<Case> cases = {
      {"these work: ", train(work, {"--ranks", "2", "--grid", "x=2,y=2"})},
      {"heads", train(work, {"--grid", "x=8"})},
      {"samples", train(work, {"--grid", "data=8"})},
      {"no grid of 7 ranks", train(work, {"--ranks", "7"})},
      {"of those that --grid can name these work: ",
       train(work, {"--ranks", "8", "--set", "parallel.strategy=megatron"})},
      {"3 stages and the model only 2 layers", train(work, {"--grid", "pipe=3"})},
      {"does not go with a pipeline",
       train(work, {"--grid", "pipe=2", "--set", "parallel.zero=2"})},
      {"must be a multiple of parallel.pipe",
       train(work, {"--grid", "pipe=2", "--set", "parallel.chunks=2", "--set", "model.layers=4",
                    "--set", "train.micro_batch=8"})},
      {"x must be 1", train(work, {"--grid", "x=2", "--set", "parallel.strategy=megatron"})},
      {"1 and 4 are the nearest",
       train(work, {"--ranks", "2", "--set", "parallel.strategy=summa2d"})},
      {"--ranks", train(work, {"--ranks", "0"})},
      {"--rank 5", {"dryrun", work.config(), "--grid", "x=2", "--rank", "5"}},
      {"--ranks-per-host 0", {"dryrun", work.config(), "--grid", "x=2", "--ranks-per-host", "0"}},
  };
  for (const Case& c : cases) expect_refusal(work, c);
}

TEST(BadInput, Data) {
  const Workspace work;
  const auto tokens = [&](const std::string& name) {
    return train(work, {"--set", "data.text=", "--set", "data.tokens=" + work.path(name)});
  };
  const auto text = [&](const std::string& name) {
    return train(work, {"--set", "data.text=" + work.path(name)});
  };
  work.write("empty.txt", "");
  work.write("binary.txt", std::string("a\0b\0c", 5));
  work.write("short.txt", "Too short.\n");
  work.write("large.bin", token_file(20240520, 900, 900, '\x7f'));  // 0x17f is 383
  work.write("cut.bin", token_file(20240520, 900, 700, '\1'));
  work.write("magic.bin", token_file(12345, 900, 900, '\1'));
  work.write("few.bin", token_file(20240520, 9, 9, '\1'));
  work.write("relative.toml", concat(Workspace::kModel, "[data]\ntext = \"none.txt\"\n"));
  const std::vector<Case> cases = {
      {"data.text = " + work.path("none.txt") + " does not exist; a relative path",
       text("none.txt")},
      {"data.text = " + std::filesystem::current_path().string() + "/none.txt does not exist",
       train(work, {"--set", "data.text=none.txt"})},
      {"data.text = " + work.path("none.txt") + " does not exist",
       {"train", work.path("relative.toml"), "--out", work.path("run")}},
      {"empty.txt", text("empty.txt")},
      {"binary", text("binary.txt")},
      {"short.txt", text("short.txt")},
      {"too large for this text", train(work, {"--set", "model.vocab=50000"})},
      {"data.text", train(work, {"--set", "data.tokens=" + work.path("cut.bin")})},
      {"data.tokens", train(work, {"--set", "data.text="})},
      {"none.bin", tokens("none.bin")},
      {"383", tokens("large.bin")},
      {"cut.bin", tokens("cut.bin")},
      {"magic.bin", tokens("magic.bin")},
      {"tokens", tokens("few.bin")},
      {"context", train(work, {"--set", "model.context=100000"})},
  };
  for (const Case& c : cases) expect_refusal(work, c);
}

TEST(BadInput, FoldersAndWeights) {
  const Workspace work;
  ASSERT_EQ(work.train("first").status, 0);
  work.write("file", "not a folder");
  std::filesystem::copy(work.path("first"), work.path("cut"));
  const std::string weights = work.read("first/model.safetensors");
  work.write("cut/model.safetensors", weights.substr(0, weights.size() - 100));
  std::filesystem::create_directory(work.path("bare"));
  std::filesystem::copy(work.path("first/config.json"), work.path("bare/config.json"));
  std::filesystem::copy(work.path("first/model.safetensors"), work.path("bare/model.safetensors"));
  work.leave_unfinished("first", "unfinished");
  const auto from = [&](const std::string& name) {
    return train(work, {"--init-from", work.path(name)});
  };
  const std::vector<Case> cases = {
      {"is a file", {"train", work.config(), "--out", work.path("file")}},
      {"not empty", {"train", work.config(), "--out", work.path("first")}},
      {"no run folder can be made", {"train", work.config(), "--out", work.path("file/run")}},
      {"--json", {"train", work.config(), "--out", work.path("run"), "--json", "/no/such/file"}},
      {"--trace", train(work, {"--trace", "/no/such/file"})},
      {"--report", train(work, {"--report", work.path("first")})},
      {"is also the file of --json", train(work, {"--report", work.path("run.json")})},
      {"train.init_from = " + work.path("none") + " does not exist", from("none")},
      {"unfinished has no model yet: the run is at step 2 of 4, or ended there",
       from("unfinished")},
      {"unfinished has no model yet: the run is at step 2 of 4, or ended there",
       {"sample", work.path("unfinished")}},
      {"there is no tokenizer in", from("bare")},
      {"heads = 4, not 2",
       train(work, {"--init-from", work.path("first"), "--set", "model.heads=2"})},
      {"layers = 2, not 1",
       train(work, {"--init-from", work.path("first"), "--set", "model.layers=1"})},
      {"tied = true, not false",
       train(work, {"--init-from", work.path("first"), "--set", "model.tied=false"})},
      {"model.safetensors", from("cut")},
      {"set the sizes of [model]",
       train(work, {"--init-from", work.path("first"), "--set", "model.width=32"})},
      {"none", {"sample", work.path("none")}},
      {"tokenizer", {"sample", work.path("bare")}},
      {"model.safetensors", {"sample", work.path("cut")}},
      {"--temperature", {"sample", work.path("first"), "--temperature", "-1"}},
      {"--top-k", {"sample", work.path("first"), "--top-k", "-1"}},
      {"--tokens", {"sample", work.path("first"), "--tokens", "0"}},
      {"heads", {"sample", work.path("first"), "--ranks", "5"}},
  };
  for (const Case& c : cases) expect_refusal(work, c);
}

/// Sizes from a stranger, which would take more memory and time than there is.
TEST(BadInput, ModelsOfOthers) {
  const Workspace work;
  ASSERT_EQ(work.train("first").status, 0);
  std::filesystem::copy(work.path("first"), work.path("other"));
  const auto json = work.json("first/config.json");
  const std::vector<std::pair<std::string, nlohmann::json>> values = {
      {"n_layer", std::int64_t{1} << 40},
      {"vocab_size", 1'000'000'000'000},
      {"n_positions", -1},
      {"n_embd", "8"}};
  for (const auto& [key, value] : values) {
    auto changed = json;
    changed[key] = value;
    work.write("other/config.json", changed.dump());
    const std::string words = concat("config.json: ", key, " = ", value.dump(),
                                     ", but the weights beside it have ", json[key].dump());
    expect_refusal(work, {words, {"sample", work.path("other")}});
    expect_refusal(work, {words, train(work, {"--init-from", work.path("other")})});
  }
}

TEST(BadInput, Memory) {
  const Workspace work;
  const std::vector<Case> cases = {
      {"device.memory_gib = -1", train(work, {"--set", "device.memory_gib=-1"})},
      {"no grid of 1 rank has room for this model: x=1 needs the least, about ",
       train(work, {"--set", "device.memory_gib=1e-5"})},
      {"no grid of 2 ranks has room",
       train(work, {"--ranks", "2", "--set", "device.memory_gib=1e-5"})},
      {"the grid y=2 does not fit the memory: a rank needs ",
       train(work, {"--grid", "y=2", "--set", "device.memory_gib=1e-5"})},
      {"10.5 KiB (device.memory_gib)",
       {"dryrun", work.config(), "--ranks", "4", "--set", "device.memory_gib=1e-5"}},
  };
  for (const Case& c : cases) expect_refusal(work, c);
  // A dry run of a grid that was given tells what is missing, and what there would be.
  const Outcome outcome = Workspace::fourfold(
      {"dryrun", work.config(), "--grid", "y=2", "--set", "device.memory_gib=1e-5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("the grid y=2 does not fit the memory: a rank needs "), 0U)
      << outcome.out;
}

/// Found by all ranks at once: still one line.
TEST(BadInput, OneLineForAllRanks) {
  const Workspace work;
  ASSERT_EQ(work.train("first").status, 0);
  expect_refusal(work, {"set the sizes of [model]",
                        train(work, {"--init-from", work.path("first"), "--grid", "x=2", "--set",
                                     "model.layers=2", "--set", "model.width=32"})});
}

}  // namespace
}  // namespace fourfold::test
