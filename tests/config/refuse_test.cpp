// Every way to get a configuration wrong is one line that says where, what, and what would work.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <random>
#include <sys/stat.h>

#include "fourfold/base/file.hpp"

#include "tests/config/sources.hpp"

namespace fourfold::test {
namespace {

class Refuse : public ConfigTest {
 protected:
  /// kSmall and then this: its first line is line 9.
  std::string after(const std::string& text) const { return refusal(kSmall + text); }
  std::string set(const std::string& override) const { return refusal(kSmall, {override}); }
};

#define EXPECT_SAYS(text, piece) \
  EXPECT_NE(std::string(text).find(piece), std::string::npos) << (text)

TEST_F(Refuse, FilesThatAreNone) {
  EXPECT_EQ(refusal_of({path("no.toml"), {}, "", true}),
            "\"no.toml\" cannot be read: No such file or directory");
  EXPECT_EQ(refusal_of({"", {}, "", true}), "\"\" cannot be read: No such file or directory");
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(refusal_of({path("folder"), {}, "", true}),
            "\"folder\" is not a file; give a configuration in TOML");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);  // opening it would wait for ever
  EXPECT_SAYS(refusal_of({path("pipe"), {}, "", true}), "is not a file");
  EXPECT_SAYS(refusal_of({"/dev/zero", {}, "", true}), "is not a file");
  write_text(path("a\nb"), "x");
  EXPECT_SAYS(refusal_of({path("a\nb"), {}, "", true}), "a\\nb:1: 'x' is not valid TOML");
}

TEST_F(Refuse, FilesThatAreNoConfiguration) {
  EXPECT_EQ(refusal(kSmall + std::string((16 << 10) + 1 - kSmall.size(), '#')),
            "\"gpt.toml\" is larger than 16384 bytes: that is no configuration");
  EXPECT_NO_THROW(read(kSmall + std::string((16 << 10) - kSmall.size(), '#')));
  EXPECT_EQ(refusal(""),
            "gpt.toml: model.width is missing; it must be a whole number of at least 1");
  EXPECT_SAYS(refusal(std::string(1000, '\0')), "gpt.toml:1: ");
  EXPECT_SAYS(refusal("\x7f"
                      "ELF\x02\x01\xff\xfe"),
              "is not valid TOML");
  // Tables and arrays as deep as a file can hold.
  std::string deep;
  while (deep.size() < (16 << 10) - 10) deep += "a.";
  EXPECT_SAYS(refusal(deep + "b=1\n"), "gpt.toml:1: unknown section [a]");
  EXPECT_SAYS(refusal("[" + deep + "b]\n"), "gpt.toml:1: unknown section [a]");
  EXPECT_SAYS(refusal("train." + deep.substr(8) + "b=1\n"), "unknown key train.a");
  EXPECT_SAYS(refusal("a=" + std::string(16000, '[')), "is not valid TOML");
  EXPECT_SAYS(refusal("[model]\nwidth=" + std::string(200, '[') + std::string(200, ']')),
              "gpt.toml:2: model.width = [[[");
}

TEST_F(Refuse, EmulatedGpus) {
  EXPECT_EQ(after("[device]\nkind = \"cuda\"\ngflops = 2.0\n"),
            "gpt.toml:11: device.gflops = 2.0 emulates a slower device on the processor, and does "
            "not go with device.kind = \"cuda\"");
  EXPECT_SAYS(set("device.kind=gpu"), "device.kind");
  EXPECT_NO_THROW(read(kSmall, {"device.kind=cuda"}));
}

TEST_F(Refuse, OtherSumsOfBf16) {
  EXPECT_EQ(after("[device]\nbf16_sums = \"float\"\n"),
            "gpt.toml:10: device.bf16_sums = \"float\" must be \"exact\" or \"nccl\"");
  EXPECT_NO_THROW(read(kSmall, {"device.bf16_sums=nccl"}));
}

TEST_F(Refuse, Syntax) {
  EXPECT_EQ(after("[train]\nsteps = \n"),
            "gpt.toml:10: 'steps =' is not valid TOML: Error while parsing key-value pair: "
            "expected value, saw '\\n'");
  EXPECT_SAYS(after("[train]\nprecision = bf16\n"),
              "gpt.toml:10: 'precision = bf16' is not valid TOML: ");
  const std::string quotes = " (text must stand in quotes)";
  EXPECT_SAYS(after("[train]\nprecision = bf16\n"), quotes);
  EXPECT_SAYS(after("cache = /tmp\n"), quotes);
  EXPECT_SAYS(after("cache = ./tmp\n"), quotes);
  for (const char* line : {"x = true\nx = true", "x = false\nx = false", "x = 1 2", "[x", "x ="}) {
    EXPECT_EQ(after(line).find("quotes"), std::string::npos) << line;
  }
  EXPECT_SAYS(after("cache = \"\\a\n"), "gpt.toml:9: 'cache = \"\\a' is not");
  EXPECT_SAYS(after("[train]\nsteps = 99999999999999999999\n"),
              "gpt.toml:10: 'steps = 99999999999999999999' is not valid TOML: ");
  EXPECT_SAYS(after("[train]\nsteps = 3\nsteps = 4\n"),
              "gpt.toml:11: 'steps = 4' is not valid TOML: Error while parsing key-value pair: "
              "cannot redefine existing integer 'steps'");
  EXPECT_SAYS(after("[model]\ntied = true\n"), "gpt.toml:9: '[model]' is not valid TOML: ");
  EXPECT_SAYS(after("[train\n"), "gpt.toml:9: '[train' is not valid TOML: ");
  EXPECT_SAYS(after("cache = \"a\x1b[31m\"\n"), "\\u001B");
  EXPECT_SAYS(after("cache = \"\xff\"\n"), "gpt.toml:9: ");
  EXPECT_SAYS(after("cache = \"\"\"abc\n\n"), "is not valid TOML");
}

TEST_F(Refuse, UnknownNames) {
  EXPECT_EQ(after("[train]\nstep = 3\n"),
            "gpt.toml:10: unknown key train.step; did you mean train.steps?");
  EXPECT_EQ(after("[train]\nsetps = 3\n"),
            "gpt.toml:10: unknown key train.setps; did you mean train.steps?");
  EXPECT_EQ(after("[train]\nlr = 3\n"),
            "gpt.toml:10: unknown key train.lr; did you mean optim.lr?");
  EXPECT_EQ(after("[train]\nquickly = true\n"),
            "gpt.toml:10: unknown key train.quickly; [train] has steps, batch, micro_batch, "
            "precision, seed, checkpoint_activations, validate_every, validate_batches, log_every, "
            "init_from, ema, compare_every, on_bad_step, draw_every");
  EXPECT_EQ(after("[parallel]\nw = 2\n"),
            "gpt.toml:10: unknown key parallel.w; [parallel] has strategy, x, y, z, data, pipe, "
            "activations, sequence_parallel, zero, chunks, placement");
  EXPECT_EQ(after("[trian]\n"), "gpt.toml:9: unknown section [trian]; did you mean [train]?");
  EXPECT_EQ(after("[x.y]\nz = 1\n"),
            "gpt.toml:9: unknown section [x]; the sections are [model], [data], [train], [optim], "
            "[checkpoint], [parallel], [overlap], [device]");
  EXPECT_EQ(set("train.step=3"), "--set: unknown key train.step; did you mean train.steps?");
  EXPECT_EQ(set("data.validation_token=3"),
            "--set: unknown key data.validation_token; did you mean data.validation_tokens?");
  EXPECT_EQ(set("optim.ep=3"), "--set: unknown key optim.ep; did you mean optim.eps?");
  EXPECT_EQ(set("optim.lrr=3"), "--set: unknown key optim.lrr; did you mean optim.lr?");
  // As near to data.tokens.
  EXPECT_EQ(set("train.toeps=3"), "--set: unknown key train.toeps; did you mean train.steps?");
  EXPECT_EQ(set("train.a.b=3").substr(0, 36), "--set: unknown key train.a.b; [train");
  EXPECT_EQ(set("optin.lr=3"), "--set: unknown section [optin]; did you mean [optim]?");
  EXPECT_SAYS(after("[train]\n\"a\\nb\\u001b\" = 3\n"), "unknown key train.a\\nb\\u001B; ");
  EXPECT_SAYS(after("[train]\n" + std::string(9000, 'a') + " = 3\n"), "aaa...; [train] has");
  EXPECT_SAYS(after("[train]\n\"\" = 3\n"), "unknown key train.; [train] has");
  EXPECT_SAYS(after("[\"\"]\n"), "unknown section []; the sections are");
}

TEST_F(Refuse, TheFirstMistakeOfTheFileComesFirst) {
  EXPECT_SAYS(after("[train]\nz = 3\na = 3\n"), "gpt.toml:10: ");
  EXPECT_SAYS(after("[train]\nz = 3\n[optim]\na = 3\n"), "gpt.toml:10: ");
}

TEST_F(Refuse, KeysOutsideOfSections) {
  EXPECT_EQ(refusal("steps = 3\n" + kSmall),
            "gpt.toml:1: key steps stands outside of any section; did you mean train.steps?");
  EXPECT_EQ(refusal("hello = 3\n" + kSmall),
            "gpt.toml:1: key hello stands outside of any section; the sections are [model], "
            "[data], [train], [optim], [checkpoint], [parallel], [overlap], [device]");
  EXPECT_EQ(refusal("\ntrain = 3\n" + kSmall),
            "gpt.toml:2: train = 3 must be a section: [train] with its keys below");
  EXPECT_EQ(after("[[train]]\nsteps = 3\n"),
            "gpt.toml:9: train = [a table] must be a section: [train] with its keys below");
  EXPECT_EQ(after("[train.steps]\nx = 3\n"),
            "gpt.toml:9: train.steps = a table must be a whole number of at least 1");
}

TEST_F(Refuse, MalformedOverrides) {
  const std::string rule = " must look like section.key=value, as in train.steps=100";
  EXPECT_EQ(set("train.steps"), "--set train.steps" + rule);
  EXPECT_EQ(set("steps=3"), "--set steps=3" + rule);
  EXPECT_EQ(set("steps=3.5"), "--set steps=3.5" + rule);
  EXPECT_EQ(set(""), "--set " + rule);
  EXPECT_EQ(set("a\nb"), "--set a\\nb" + rule);
  EXPECT_EQ(set(".=3").substr(0, 26), "--set: unknown section [];");
  EXPECT_EQ(set("train.=3").substr(0, 28), "--set: unknown key train.; [");
  EXPECT_EQ(set("data.text=a\xff"),
            "--set: the value of data.text must be UTF-8 text of at most 16384 bytes");
  EXPECT_SAYS(set("data.text=" + std::string(20000, 'a')), "at most 16384 bytes");
  std::string deep = "{";
  for (int i = 0; i < 50000; ++i) deep += "a.";
  EXPECT_SAYS(set("data.text=" + deep + "b=1}"), "at most 16384 bytes");
}

TEST_F(Refuse, WrongTypes) {
  EXPECT_EQ(refusal("[model]\n\n\n\n\n\nwidth = \"wide\"\n"),
            "gpt.toml:7: model.width = \"wide\" must be a whole number of at least 1");
  const std::string whole = " must be a whole number of at least 1";
  EXPECT_EQ(set("train.steps=8.0"),
            "--set: train.steps = 8.0" + whole + ", written without a point");
  EXPECT_EQ(set("train.steps=1e3"),
            "--set: train.steps = 1000.0" + whole + ", written without a point");
  EXPECT_EQ(set("train.steps=nan"),
            "--set: train.steps = nan" + whole + ", written without a point");
  EXPECT_EQ(set("train.steps="), "--set: train.steps = \"\"" + whole);
  EXPECT_EQ(set("train.steps=true"), "--set: train.steps = true" + whole);
  EXPECT_EQ(set("train.steps=[5]"), "--set: train.steps = [5]" + whole);
  EXPECT_EQ(set("train.steps=1979-05-27"), "--set: train.steps = a date or time" + whole);
  EXPECT_EQ(set("train.steps=99999999999999999999"),
            "--set: train.steps = \"99999999999999999999\"" + whole);
  EXPECT_EQ(set("train.steps=5\nother=6"), "--set: train.steps = \"5\\nother=6\"" + whole);
  EXPECT_EQ(set("model.tied=1"), "--set: model.tied = 1 must be true or false");
  EXPECT_EQ(set("model.tied=yes"), "--set: model.tied = \"yes\" must be true or false");
  EXPECT_EQ(set("optim.lr=fast"), "--set: optim.lr = \"fast\" must be a number above 0");
  EXPECT_EQ(set("data.text=5"), "--set: data.text = 5 must be a path in quotes");
  EXPECT_EQ(set("data.text=\"a\\u0000b\""),
            "--set: data.text = \"a\\u0000b\" must be a path in quotes");
  EXPECT_SAYS(set("data.text=" + std::string(4095, 'a')),
              "aaa... must be a path of at most 4096 bytes");
  EXPECT_SAYS(set("data.text=" + std::string(4090, 'a')),
              "aaa... must be a path of at most 4096 bytes");  // with the folder
  EXPECT_EQ(refusal_of({.path = path("gpt.toml"), .init_from = "a\xff"}),
            "--init-from: the path must be UTF-8 text");
  EXPECT_EQ(set("train.precision=32"),
            "--set: train.precision = 32 must be \"float32\", \"bf16\" or \"float64\"");
  EXPECT_SAYS(set("train.steps=" + std::string(5000, 'a')), "aaa... must be a whole number");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ä";
  EXPECT_EQ(set("train.steps=" + umlauts),
            "--set: train.steps = \"" + umlauts.substr(0, 118) + "..." + whole);
}

TEST_F(Refuse, OutOfRange) {
  const auto at_least = [](const char* key, const char* value, const char* low) {
    return concat("--set: ", key, " = ", value, " must be a whole number of at least ", low);
  };
  for (const auto& [key, value, low] :
       std::vector<std::array<const char*, 3>>{{"model.vocab", "-1", "0"},
                                               {"model.width", "0", "1"},
                                               {"model.heads", "0", "1"},
                                               {"model.layers", "0", "1"},
                                               {"model.context", "0", "1"},
                                               {"train.steps", "0", "1"},
                                               {"train.batch", "0", "1"},
                                               {"train.micro_batch", "-1", "0"},
                                               {"train.seed", "-1", "0"},
                                               {"train.validate_every", "-1", "0"},
                                               {"train.validate_batches", "0", "1"},
                                               {"train.log_every", "0", "1"},
                                               {"optim.warmup", "-1", "0"},
                                               {"parallel.x", "0", "1"},
                                               {"parallel.y", "0", "1"},
                                               {"parallel.z", "-2", "1"},
                                               {"parallel.data", "0", "1"},
                                               {"parallel.pipe", "0", "1"},
                                               {"parallel.zero", "-1", "0"},
                                               {"parallel.chunks", "0", "1"},
                                               {"train.steps", "-9223372036854775808", "1"}}) {
    EXPECT_EQ(set(concat(key, "=", value)), at_least(key, value, low));
  }
  const auto at_most = [](const char* key, const char* value, const char* high) {
    return concat("--set: ", key, " = ", value, " must be a whole number of at most ", high);
  };
  for (const auto& [key, value, high] : std::vector<std::array<const char*, 3>>{
           {"model.vocab", "2147483648", "2147483647"},
           {"model.width", "1048577", "1048576"},
           {"model.heads", "1048577", "1048576"},
           {"model.layers", "1048577", "1048576"},
           {"model.context", "16777217", "16777216"},
           {"train.steps", "9223372036854775807", "1099511627776"},
           {"train.steps", "1099511627777", "1099511627776"},
           {"train.batch", "1073741825", "1073741824"},
           {"train.micro_batch", "1073741825", "1073741824"},
           {"train.validate_every", "1099511627777", "1099511627776"},
           {"optim.warmup", "1099511627777", "1099511627776"},
           {"parallel.x", "2147483648", "2147483647"}}) {
    EXPECT_EQ(set(concat(key, "=", value)), at_most(key, value, high));
  }
}

TEST_F(Refuse, NumbersOutOfRange) {
  for (const auto& [key, value, rule] : std::vector<std::array<const char*, 3>>{
           {"model.dropout", "1.0", "of at least 0 and below 1"},
           {"model.dropout", "-0.1", "of at least 0 and below 1"},
           {"data.validation", "1.0", "of at least 0 and below 1"},
           {"data.validation", "-0.5", "of at least 0 and below 1"},
           {"data.validation", "nan", "of at least 0 and below 1"},
           {"optim.lr", "0.0", "above 0"},
           {"optim.lr", "-1.0", "above 0"},
           {"optim.lr", "nan", "above 0"},
           {"optim.lr", "inf", "above 0"},
           {"optim.min_lr", "-1.0", "of at least 0"},
           {"optim.min_lr", "-inf", "of at least 0"},
           {"optim.eps", "0.0", "above 0"},
           {"optim.eps", "inf", "above 0"},
           {"optim.weight_decay", "-0.1", "of at least 0"},
           {"optim.weight_decay", "nan", "of at least 0"},
           {"optim.clip", "-1.0", "of at least 0"},
           {"optim.clip", "inf", "of at least 0"}}) {
    EXPECT_EQ(set(concat(key, "=", value)),
              concat("--set: ", key, " = ", value, " must be a number ", rule));
  }
}

TEST_F(Refuse, Betas) {
  const std::string rule = " must be two numbers of at least 0 and below 1, such as [0.9, 0.95]";
  for (const char* value : {"[0.9]", "[]", "[0.9, 0.95, 0.99]", "0.9", "[0.9, 1.0]", "[1, 0.9]",
                            "[-0.1, 0.9]", "[0.9, nan]", "[0.9, true]", "[[0.9], 0.9]"}) {
    EXPECT_EQ(set(concat("optim.betas=", value)), concat("--set: optim.betas = ", value, rule));
  }
}

TEST_F(Refuse, KeysOfAnotherKindOfModel) {
  EXPECT_EQ(set("model.kv_heads=2"), "--set: model.kv_heads is no key of model.kind = \"gpt\"");
  EXPECT_EQ(set("model.norm_eps=1e-6"), "--set: model.norm_eps is no key of model.kind = \"gpt\"");
  EXPECT_EQ(refusal(kSmall, {"model.kind=llama", "model.dropout=0.1"}),
            "--set: model.dropout is no key of model.kind = \"llama\"");
  EXPECT_EQ(refusal(kSmall, {"model.kind=llama", "model.kv_heads=3"}),
            "gpt.toml:4: model.heads = 4 must be a multiple of model.kv_heads = 3");
  for (const char* value :
       {"[8.0]", "8.0", "[8.0, 4.0, 1.0, 64]", "[8.0, 1.0, 4.0, 0.5]", "[0, 1, 4, 8]"}) {
    EXPECT_EQ(refusal(kSmall, {"model.kind=llama", concat("model.rope_scaling=", value)}),
              concat("--set: model.rope_scaling = ", value,
                     " must be [], or factor, low and high frequency factor and the original "
                     "context, such as [8.0, 1.0, 4.0, 8192]"));
  }
}

TEST_F(Refuse, UnknownChoices) {
  EXPECT_EQ(set("model.kind=resnet"),
            "--set: model.kind = \"resnet\" must be \"gpt\", \"llama\" or \"unet\"");
  EXPECT_EQ(
      after("[parallel]\nstrategy = \"zero\"\n"),
      "gpt.toml:10: parallel.strategy = \"zero\" must be \"auto\", \"ddp\", \"zero1\", \"zero2\", "
      "\"zero3\", \"megatron\", \"summa2d\", \"summa2.5d\", \"3d\", \"4d\" or "
      "\"deepspeed3d\"");
  EXPECT_EQ(set("train.precision=fp8"),
            "--set: train.precision = \"fp8\" must be \"float32\", \"bf16\" or \"float64\"");
  EXPECT_EQ(set("data.tokenizer=words"),
            "--set: data.tokenizer = \"words\" must be \"bpe\" or \"bytes\"");
  EXPECT_EQ(set("parallel.activations=whole"),
            "--set: parallel.activations = \"whole\" must be \"sharded\" or \"replicated\"");
  EXPECT_EQ(
      set("parallel.placement=x,y,z,data"),
      "--set: parallel.placement = \"x,y,z,data\" must be each axis once, fastest first, as in "
      "\"x,y,z,data,pipe\"");
  EXPECT_SAYS(set("parallel.placement=5"), "parallel.placement = 5 must be each axis once");
}

TEST_F(Refuse, MissingKeys) {
  for (const char* key : {"width", "heads", "layers", "context"}) {
    std::string text = kSmall;
    const auto at = text.find(key);
    text.erase(at, text.find('\n', at) - at);
    EXPECT_EQ(refusal(text), concat("gpt.toml: model.", key,
                                    " is missing; it must be a whole number of at least 1"));
    EXPECT_NO_THROW(read(text, {concat("model.", key, "=4")}));
  }
}

TEST_F(Refuse, KeysThatDoNotGoTogether) {
  EXPECT_EQ(after("[train]\nbatch = 10\nmicro_batch = 4\n"),
            "gpt.toml:10: train.batch = 10 must be a multiple of train.micro_batch = 4");
  EXPECT_EQ(refusal(kSmall, {"optim.min_lr=1e-3", "optim.lr=3e-4"}),
            "--set: optim.min_lr = 0.001 must be at most optim.lr = 3e-04");
  EXPECT_EQ(after("[optim]\nmin_lr = 3e-5\nlr = 1e-5\n"),
            "gpt.toml:10: optim.min_lr = 3e-05 must be at most optim.lr = 1e-05");
  EXPECT_EQ(refusal(kSmall, {"train.steps=5", "optim.warmup=10"}),
            "--set: optim.warmup = 10 must be at most train.steps = 5");
  EXPECT_EQ(set("model.heads=7"),
            "gpt.toml:3: model.width = 64 must be a multiple of model.heads = 7");
}

TEST_F(Refuse, Grids) {
  EXPECT_EQ(refusal(kSmall, {}, "x=2,y"), "--grid: grid piece 'y' must look like x=2");
  EXPECT_EQ(refusal(kSmall, {}, "x=0"),
            "--grid: grid size 'x=0' must be a whole number of at least 1");
  EXPECT_SAYS(refusal(kSmall, {}, "w\n=2"), "--grid: 'w' is not an axis");
  EXPECT_SAYS(refusal(kSmall, {}, "x=2\n3"), "--grid: grid size 'x=2\\n3' must be");
  EXPECT_EQ(refusal(kSmall, {"parallel.x=2"}, "x=65536,y=65536"),
            "--grid: the grid has more ranks than 2^31");
  EXPECT_EQ(after("[parallel]\ny = 65536\ndata = 65536\n"),
            "gpt.toml:10: the grid has more ranks than 2^31");
}

TEST_F(Refuse, Data) {
  EXPECT_EQ(refusal(kModel),
            "gpt.toml: data.text (a file or folder of text) or data.tokens (a file of tokens) must "
            "be given");
  EXPECT_EQ(
      after("tokens = \"/a.bin\"\n"),
      "gpt.toml:9: data.tokens = \"/a.bin\" and data.text = \"/t\" cannot both be given; set one "
      "of them to \"\"");
  EXPECT_EQ(refusal(kSmall, {"data.tokens=a.bin"}, "", false).substr(0, 7), "--set: ");
  EXPECT_EQ(
      set("data.validation_tokens=/b.bin"),
      "--set: data.validation_tokens = \"/b.bin\" needs data.tokens; for text, data.validation "
      "is the share to keep");
  EXPECT_SAYS(refusal(kModel, {"data.validation_tokens=b.bin"}, "", false), "needs data.tokens");
}

TEST_F(Refuse, Vocabularies) {
  const std::string number = ": the number of different tokens, such as 8192";
  std::string text = kSmall;
  text.erase(text.find("vocab"), std::string("vocab = 512").size());
  EXPECT_EQ(refusal(text),
            "gpt.toml: model.vocab must be given with data.tokenizer = \"bpe\" (the "
            "default)" +
                number);
  EXPECT_EQ(
      set("model.vocab=0"),
      "--set: model.vocab must be given with data.tokenizer = \"bpe\" (the default)" + number);
  EXPECT_EQ(refusal(text, {"data.text=", "data.tokens=/a.bin"}),
            "gpt.toml: model.vocab must be given with data.tokens = \"/a.bin\"" + number);
  EXPECT_SAYS(refusal(text, {"data.text=", "data.tokens=a.bin", "data.tokenizer=bytes"}),
              "must be given with data.tokens");
  EXPECT_SAYS(refusal(kModel, {"model.vocab=0"}, "", false), "must be given with data.tokenizer");
  EXPECT_EQ(refusal(text, {"data.tokenizer=bytes", "data.tokenizer_from=/llama3"}),
            "gpt.toml: model.vocab must be given with data.tokenizer_from = \"/llama3\"" + number);
  EXPECT_EQ(refusal(kSmall, {"data.tokenizer=bytes", "model.vocab=255"}),
            "--set: model.vocab = 255 must be at least 256, or 0, with data.tokenizer = \"bytes\"");
}

TEST_F(Refuse, AnyBytesInOneLine) {
  std::mt19937 random(3);
  const std::string pieces = "[]={}\"'\\#.,\n\r\t-+_ex0179\x01\x1b\x7f\xff\xc3\xa9";
  const auto pick = [&](std::size_t count) { return random() % count; };
  for (int i = 0; i < 1000; ++i) {
    std::string text = kSmall + "[optim]\nbetas = [0.9, 0.95]\n[parallel]\nx = 2\n";
    for (std::size_t change = 0; change <= pick(4); ++change) {
      text[pick(text.size())] = pieces[pick(pieces.size())];
    }
    refusal(text);  // which looks at the line, if there is one
    const std::string value = text.substr(pick(text.size()));
    refusal(kSmall, {"optim.betas=" + value, value}, value);
  }
}

}  // namespace
}  // namespace fourfold::test
