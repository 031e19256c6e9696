// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/checkpoint/config_file.hpp"
#include "fourfold/checkpoint/generation_config.hpp"

#include "tests/fuzz/file.hpp"

namespace {

using fourfold::checkpoint::ConfigFile;

template <class Read>
void read(const Read& one) {
  fourfold::fuzz::attempt([&] { one(ConfigFile(fourfold::fuzz::folder().string())); });
}

void expect(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// What the readers of all kinds of models ask of config.json, each by itself.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fourfold::fuzz::put("config.json", bytes, size);
  read([](const ConfigFile& json) { expect(json.size("n_embd", 8) == 8); });
  read([](const ConfigFile& json) { expect(8 % json.divisor("n_head", "n_embd", 8) == 0); });
  read([](const ConfigFile& json) {
    const std::int64_t context = json.at_most("max_position_embeddings", 4096);
    expect(context >= 1 && context <= 4096);
  });
  read([](const ConfigFile& json) {
    const std::vector<std::int64_t> numbers = json.numbers("multipliers", 64, 8);
    expect(numbers.size() <= 8 && std::all_of(numbers.begin(), numbers.end(), [](auto number) {
             return number >= 1 && number <= 64;
           }));
  });
  read([](const ConfigFile& json) { json.expect("n_inner", 32); });
  read([](const ConfigFile& json) { json.expect("activation_function", "gelu_new"); });
  read([](const ConfigFile& json) { static_cast<void>(json.flag("tie_word_embeddings", true)); });
  read([](const ConfigFile& json) { static_cast<void>(json.number("rms_norm_eps", 1e-5)); });
  read([](const ConfigFile& json) {
    static_cast<void>(json.text("torch_dtype"));
    expect(json.shown("model_type").size() < 100);
  });
  read([](const ConfigFile& json) {
    static_cast<void>(json.object("rope_scaling"));
    constexpr std::int64_t kVocabulary = 16;
    const auto tokens = fourfold::checkpoint::read_generation_tokens(
        fourfold::fuzz::folder().string(), kVocabulary);
    expect(tokens.begin < kVocabulary);
    for (const std::int64_t end : tokens.ends) expect(end >= 0 && end < kVocabulary);
  });
  return 0;
}
