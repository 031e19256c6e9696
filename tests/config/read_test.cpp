// What a configuration file and the command line say arrives, in the right order.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/read.hpp"

#include "fourfold/config/write.hpp"

#include "tests/config/sources.hpp"

namespace fourfold::test {
namespace {

using config::Config;

/// A value other than the default for every key.
constexpr const char* kEverything = R"([model]
kind = "gpt"
vocab = 1000
width = 96
heads = 6
layers = 3
context = 32
dropout = 0.25
tied = false

[data]
tokens = "/data/train.bin"
validation_tokens = "/data/valid.bin"
tokenizer = "bytes"
tokenizer_from = "/data/llama3"
validation = 0.125
cache = "/tmp/cache"

[train]
steps = 400
batch = 12
micro_batch = 4
precision = "bf16"
seed = 9223372036854775807
checkpoint_activations = true
validate_every = 7
validate_batches = 3
log_every = 5
init_from = "/runs/first"
ema = 0.75
compare_every = 9
on_bad_step = "skip"

[optim]
lr = 0.5
min_lr = 0.25
betas = [0.5, 0.75]
eps = 0.125
weight_decay = 0.0
warmup = 400
clip = 2.0

[checkpoint]
every = 20
minutes = 2.5
keep = 3
keep_every = 100
staging_mib = 64

[parallel]
strategy = "4d"
x = 2
y = 3
z = 4
data = 5
pipe = 6
activations = "replicated"
zero = 2
chunks = 3
placement = "data,z,pipe,x,y"

[overlap]
input_gradients = false
weight_gradients = true
weights = false
keep_weights = true
data = false
halves = false
panels = true
window_mib = 3
keep_mib = 0
segment_mib = 5

[device]
kind = "cpu"
gflops = 2.5
gbytes_per_second = 4.0
memory_gib = 1.5
bf16_sums = "nccl"
)";

Config everything() {
  using grid::Axis;
  return {.model = {"gpt", 1000, 96, 6, 3, 32, 0.25, false},
          .data = {"", "/data/train.bin", "/data/valid.bin", config::Tokenizer::kBytes,
                   "/data/llama3", 0.125, "/tmp/cache"},
          .train = {400, 12, 4, config::Precision::kBf16, 9223372036854775807U, true, 7, 3, 5,
                    "/runs/first", 0.75, 9, config::OnBadStep::kSkip},
          .optim = {0.5, 0.25, {0.5, 0.75}, 0.125, 0.0, 400, 2.0},
          .checkpoint = {20, 2.5, 3, 100, 64},
          .parallel = {"4d",
                       {2, 3, 4, 5, 6},
                       true,
                       config::Activations::kReplicated,
                       true,
                       2,
                       3,
                       {Axis::kData, Axis::kZ, Axis::kPipe, Axis::kX, Axis::kY}},
          .overlap = {false, true, false, true, false, false, true, 3, 0, 5},
          .device = {config::DeviceKind::kCpu, 2.5, 4, 1.5, config::Bf16Sums::kNccl}};
}

class Read : public ConfigTest {};

TEST_F(Read, TakesEveryKey) {
  EXPECT_EQ(read(kEverything), everything());
}

TEST_F(Read, WritesEveryKeyInOrder) {
  EXPECT_EQ(config::to_toml(everything()), kEverything);
}

TEST_F(Read, TakesTheKeysOfALlama) {
  const Config plain = read(kSmall, {"model.kind=llama"});
  EXPECT_EQ(plain.model.kv_heads, 4);
  EXPECT_EQ(plain.model.hidden, 192);  // 8/3 of 64, rounded up
  EXPECT_FALSE(plain.model.tied);
  const Config given =
      read(kSmall, {"model.kind=llama", "model.kv_heads=2", "model.hidden=100", "model.tied=true",
                    "model.rope_theta=500000.0", "model.rope_scaling=[8.0, 1.0, 4.0, 8192]"});
  EXPECT_EQ(given.model.kv_heads, 2);
  EXPECT_EQ(given.model.hidden, 100);
  EXPECT_TRUE(given.model.tied);
  EXPECT_EQ(given.model.rope_scaling, (std::vector<double>{8, 1, 4, 8192}));
  EXPECT_NE(config::to_toml(given).find("rope_scaling = [8.0, 1.0, 4.0, 8192.0]"),
            std::string::npos)
      << config::to_toml(given);
}

TEST_F(Read, DefaultsAreTheDocumentedOnes) {
  const Config config = read(kSmall);
  EXPECT_EQ(config, small());
  EXPECT_EQ(config.model.kind, "gpt");
  EXPECT_EQ(config.model.dropout, 0);
  EXPECT_TRUE(config.model.tied);
  EXPECT_EQ(config.data.tokenizer, config::Tokenizer::kBpe);
  EXPECT_EQ(config.data.validation, 0.05);
  EXPECT_EQ(config.data.cache, "");
  EXPECT_EQ(config.train.steps, 200);
  EXPECT_EQ(config.train.batch, 8);
  EXPECT_EQ(config.train.precision, config::Precision::kFloat32);
  EXPECT_EQ(config.train.seed, 1U);
  EXPECT_FALSE(config.train.checkpoint_activations);
  EXPECT_EQ(config.train.validate_every, 50);
  EXPECT_EQ(config.train.validate_batches, 8);
  EXPECT_EQ(config.train.log_every, 1);
  EXPECT_EQ(config.optim, (config::OptimConfig{3e-4, 3e-5, {0.9, 0.95}, 1e-8, 0.1, 10, 1.0}));
  EXPECT_EQ(config.parallel.strategy, "auto");
  EXPECT_EQ(config.parallel.sizes, grid::Sizes{});
  EXPECT_FALSE(config.parallel.given);
  EXPECT_EQ(config.parallel.activations, config::Activations::kSharded);
  EXPECT_EQ(config.parallel.placement, grid::kDefaultPlacement);
  EXPECT_EQ(config.overlap,
            (config::OverlapConfig{true, true, true, true, true, true, true, 64, 256, 16}));
}

TEST_F(Read, MicroBatchFollowsTheBatch) {
  EXPECT_EQ(read(kSmall + "[train]\nbatch = 24\n").train.micro_batch, 24);
  EXPECT_EQ(read(kSmall + "[train]\nbatch = 24\nmicro_batch = 0\n").train.micro_batch, 24);
  EXPECT_EQ(read(kSmall + "[train]\nbatch = 24\n", {"train.batch=6"}).train.micro_batch, 6);
  EXPECT_EQ(read(kSmall + "[train]\nbatch = 24\n", {"train.micro_batch=6"}).train.micro_batch, 6);
}

TEST_F(Read, OverridesFollowTheFileAndTheLastWins) {
  const std::string file = kSmall + "[train]\nsteps = 30\nseed = 3\n";
  const Config config = read(file, {"train.steps=40", "model.width=128", "train.steps=50"});
  EXPECT_EQ(config.train.steps, 50);
  EXPECT_EQ(config.train.seed, 3U);
  EXPECT_EQ(config.model.width, 128);
}

TEST_F(Read, OverridesAreTomlOrPlainText) {
  const auto text = [this](const std::string& override) {
    // Relative to the working directory.
    const std::string path = read(kSmall, {override}).data.text;
    const std::string here = std::filesystem::current_path().string() + "/";
    return path.starts_with(here) ? path.substr(here.size()) : path;
  };
  EXPECT_EQ(text("data.text=/a/b"), "/a/b");
  EXPECT_EQ(text("data.text=\"a b\""), "a b");
  EXPECT_EQ(text("data.text='a \\ b'"), "a \\ b");
  EXPECT_EQ(text("data.text=a b # c"), "a b # c");
  EXPECT_EQ(text("data.text=a=b.c"), "a=b.c");
  EXPECT_EQ(text("data.text=say \"hi\" \\ \n"), "say \"hi\" \\");
  EXPECT_EQ(text("data.text=x\ny = 2"), "x\ny = 2");
  EXPECT_EQ(text("data.text=5\nother = 2"), "5\nother = 2");
  EXPECT_EQ(text(" data.text = folder "), "folder");
  EXPECT_EQ(text("data.text=Zoë/文"), "Zoë/文");
  EXPECT_EQ(read(kSmall, {"train.precision=bf16"}).train.precision, config::Precision::kBf16);
  EXPECT_EQ(read(kSmall, {"train.precision=\"float64\""}).train.precision,
            config::Precision::kFloat64);
  EXPECT_EQ(read(kSmall, {"optim.betas=[0.9,0.99]"}).optim.betas[1], 0.99);
  EXPECT_EQ(read(kSmall, {"optim.lr=1e-2"}).optim.lr, 1e-2);
  EXPECT_EQ(read(kSmall, {"train.steps=1_000"}).train.steps, 1000);
  EXPECT_FALSE(read(kSmall, {"model.tied=false"}).model.tied);
  EXPECT_EQ(read(kSmall, {"parallel.placement=pipe,data,z,y,x"}).parallel.placement[0],
            grid::Axis::kPipe);
}

TEST_F(Read, AnEmptyPathIsNotGiven) {
  const Config config = read(kSmall, {"data.text=", "data.tokens=/a.bin"});
  EXPECT_EQ(config.data.text, "");
  EXPECT_EQ(config.data.tokens, "/a.bin");
}

TEST_F(Read, PathsOfAFileStartAtItsFolder) {
  const std::string file = kModel +
                           "[data]\ntokens = \"train.bin\"\nvalidation_tokens = \"./a/valid.bin\"\n"
                           "cache = \"../cache\"\n[train]\ninit_from = \"runs/first\"\n";
  const Config config = read(file);
  EXPECT_EQ(config.data.tokens, path("train.bin"));
  EXPECT_EQ(config.data.validation_tokens, path("a/valid.bin"));
  EXPECT_EQ(config.data.cache, path("../cache")) << "the folder may be a link";
  EXPECT_EQ(config.train.init_from, path("runs/first"));
  EXPECT_EQ(read(config::to_toml(config)), config) << "the same from every folder";
  // However the file itself is named.
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const std::string bare = config::read({.path = "gpt.toml"}).data.tokens;
  const std::string dotted = config::read({.path = "./gpt.toml"}).data.tokens;
  std::filesystem::current_path(here);
  EXPECT_EQ(bare, path("train.bin"));
  EXPECT_EQ(dotted, path("train.bin"));
}

TEST_F(Read, PathsOfTheCommandLineStartAtTheWorkingDirectory) {
  const std::string here = std::filesystem::current_path().string();
  const Config config = read(kSmall, {"data.text=texts", "data.cache=cache/a"});
  EXPECT_EQ(config.data.text, here + "/texts");
  EXPECT_EQ(config.data.cache, here + "/cache/a");
  EXPECT_EQ(read(kSmall, {"data.text=/texts"}).data.text, "/texts");
}

TEST_F(Read, WeightsToStartFromComeFromTheOptionBeforeTheKey) {
  const std::string file = kSmall + "[train]\ninit_from = \"/first\"\n";
  EXPECT_EQ(read(kSmall).train.init_from, "");
  EXPECT_EQ(read(file).train.init_from, "/first");
  EXPECT_EQ(read(file, {"train.init_from="}).train.init_from, "");
  config::Source source{.path = path("gpt.toml"), .init_from = "/second"};
  EXPECT_EQ(config::read(source).train.init_from, "/second");
  source.init_from = "third \"run\"";
  EXPECT_EQ(config::read(source).train.init_from,
            std::filesystem::current_path().string() + "/third \"run\"");
}

TEST_F(Read, DefaultsGiveWayToWhatIsGiven) {
  const auto set = [this](std::vector<std::string> overrides) { return read(kSmall, overrides); };
  EXPECT_EQ(set({"train.steps=2"}).optim.warmup, 2);
  EXPECT_EQ(set({"train.steps=11"}).optim.warmup, 10);
  EXPECT_EQ(set({"optim.warmup=300"}).train.steps, 300);
  EXPECT_EQ(set({"optim.warmup=100"}).train.steps, 200);
  EXPECT_EQ(set({"optim.warmup=2", "train.steps=20"}).optim.warmup, 2);
  EXPECT_EQ(set({"optim.lr=1e-5"}).optim.min_lr, 1e-5);
  EXPECT_EQ(set({"optim.lr=1e-5"}).optim.lr, 1e-5);
  EXPECT_EQ(set({"optim.lr=1"}).optim.min_lr, 3e-5);
  EXPECT_EQ(set({"optim.min_lr=1e-3"}).optim.lr, 1e-3);
  EXPECT_EQ(set({"optim.min_lr=1e-3"}).optim.min_lr, 1e-3);
  EXPECT_EQ(set({"train.micro_batch=16"}).train.batch, 16);
  EXPECT_EQ(set({"train.micro_batch=5"}).train.batch, 10);
  EXPECT_EQ(set({"train.micro_batch=4"}).train.batch, 8);
  const Config tiny = set({"train.steps=1"});
  EXPECT_EQ(read(config::to_toml(tiny)), tiny) << "what the run uses is written";
}

TEST_F(Read, StagesOfAPipelineGetTheirMicroBatches) {
  const std::vector<std::string> chunks = {"parallel.chunks=2"};
  EXPECT_EQ(read(kSmall, chunks, "pipe=4").train.micro_batch, 2);
  EXPECT_EQ(read(kSmall, chunks).train.micro_batch, 8) << "no grid yet";
  EXPECT_EQ(read(kSmall, {}, "pipe=4").train.micro_batch, 8) << "one pass is right there";
  EXPECT_EQ(read(kSmall, {"parallel.chunks=2", "train.micro_batch=1"}, "pipe=4").train.micro_batch,
            1);
}

TEST_F(Read, WholeNumbersAreNumbersToo) {
  const Config config = read(kSmall + "[optim]\nlr = 1\nbetas = [0, 0.5]\nclip = 0\n");
  EXPECT_EQ(config.optim.lr, 1.0);
  EXPECT_EQ(config.optim.betas[0], 0.0);
  EXPECT_EQ(config.optim.clip, 0.0);
}

TEST_F(Read, SizesAreGivenByAnyOfThree) {
  const std::string file = kSmall + "[parallel]\nx = 2\nz = 4\n";
  EXPECT_EQ(read(file).parallel.sizes, (grid::Sizes{.x = 2, .z = 4}));
  EXPECT_TRUE(read(file).parallel.given);
  EXPECT_TRUE(read(kSmall + "[parallel]\nx = 1\n").parallel.given);
  EXPECT_EQ(read(file, {"parallel.x=3"}).parallel.sizes, (grid::Sizes{.x = 3, .z = 4}));
  EXPECT_TRUE(read(kSmall, {"parallel.pipe=3"}).parallel.given);
  EXPECT_FALSE(read(kSmall + "[parallel]\nactivations = \"sharded\"\n").parallel.given);
}

TEST_F(Read, GridReplacesAllSizes) {
  const std::string file = kSmall + "[parallel]\nx = 2\nz = 4\n";
  const Config config = read(file, {"parallel.y=7"}, "data=3,y=2");
  EXPECT_EQ(config.parallel.sizes, (grid::Sizes{.y = 2, .data = 3}));
  EXPECT_TRUE(config.parallel.given);
  EXPECT_TRUE(read(kSmall, {}, "x=1").parallel.given);
}

TEST_F(Read, DataMayBeLeftOutWhereNoneIsNeeded) {
  const Config config = read(kModel, {}, "", false);
  EXPECT_EQ(config.data, config::DataConfig{});
  EXPECT_EQ(read(kSmall, {}, "", false), small());
}

TEST_F(Read, BytesKnowTheirVocabulary) {
  const std::string bytes = "tokenizer = \"bytes\"\n";
  EXPECT_EQ(read(kSmall + bytes, {"model.vocab=0"}).model.vocab, 0);
  EXPECT_EQ(read(kSmall + bytes, {"model.vocab=256"}).model.vocab, 256);
  EXPECT_EQ(read(kSmall + bytes, {"model.vocab=257"}).model.vocab, 257);
  EXPECT_EQ(read(kModel, {"data.tokenizer=bytes", "model.vocab=0"}, "", false).model.vocab, 0);
}

TEST_F(Read, KeysAndSectionsMayComeInAnyOrderAndDotted) {
  EXPECT_EQ(read("data.text = \"/t\"\n" + kModel), small());
  EXPECT_EQ(read("train = {steps = 20}\n" + kSmall).train.steps, 20);
  EXPECT_EQ(read("\xEF\xBB\xBF# with a byte order mark and \\r\r\n" + kSmall), small());
}

TEST_F(Read, BoundsThemselvesAreAllowed) {
  for (const char* override : {"model.dropout=0.999",
                               "model.width=1048576",
                               "model.context=16777216",
                               "model.layers=1",
                               "model.vocab=2147483647",
                               "data.validation=0",
                               "train.steps=1099511627776",
                               "train.batch=1073741824",
                               "train.seed=0",
                               "train.validate_every=0",
                               "train.validate_batches=1",
                               "train.log_every=1",
                               "optim.min_lr=0",
                               "optim.min_lr=3e-4",
                               "optim.weight_decay=0",
                               "optim.warmup=0",
                               "optim.warmup=200",
                               "parallel.x=2147483647",
                               "optim.lr=1e300",
                               "optim.eps=5e-324"}) {
    EXPECT_NO_THROW(read(kSmall, {override})) << override;
  }
}

}  // namespace
}  // namespace fourfold::test
