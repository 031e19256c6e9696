// Weights to files and back, on any grid: the file is read by a reader of the test's own.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/weights.hpp"

#include <cstring>
#include <fstream>
#include <utility>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/tensor/memory.hpp"

#include "tests/checkpoint/support.hpp"
#include "tests/model/compare.hpp"
#include "tests/model/reference.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using model::GptSpec;

struct RawTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<char> bytes;

  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    return n;
  }
  double at(std::int64_t i) const {
    const auto n = static_cast<std::size_t>(i);
    if (dtype == "F64") return number<double>(n);
    if (dtype == "F32") return number<float>(n);
    const std::uint32_t bits = std::uint32_t{number<std::uint16_t>(n)} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  template <class Number>
  Number number(std::size_t i) const {
    Number value{};
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  }
};

/// Length, JSON, bytes: nothing of ours.
std::map<std::string, RawTensor> read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> all((std::istreambuf_iterator<char>(file)), {});
  std::uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  const auto begin = all.begin() + 8 + static_cast<std::ptrdiff_t>(length);
  const auto header = nlohmann::json::parse(all.begin() + 8, begin);
  EXPECT_EQ(header.at("__metadata__").at("format"), "pt");
  std::map<std::string, RawTensor> tensors;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") continue;
    const auto& offsets = info.at("data_offsets");
    tensors[name] = {
        info.at("dtype"),
        info.at("shape"),
        {begin + offsets[0].get<std::ptrdiff_t>(), begin + offsets[1].get<std::ptrdiff_t>()}};
  }
  return tensors;
}

/// Where GPT-2 keeps our element (row, column) of a parameter, counted from the tensor's start.
std::int64_t place_in_file(const GptSpec& spec, const std::string& name, std::int64_t row,
                           std::int64_t column, std::int64_t rows, std::int64_t columns) {
  std::int64_t file_row = row;
  if (name.find("c_attn") != std::string::npos) {
    const std::int64_t size = spec.width / spec.heads;
    const std::int64_t head = row / (3 * size);
    const std::int64_t part = row / size % 3;
    file_row = part * spec.width + head * size + row % size;
  }
  const bool conv = name.starts_with("h.") && columns > 0;
  if (columns == 0) return file_row;
  return conv ? column * rows + file_row : file_row * columns + column;
}

/// Holds a file to whole parameters.
void expect_file(const std::string& folder, const GptSpec& spec, const Weights& weights) {
  auto tensors = read_safetensors(folder + "/model.safetensors");
  ASSERT_EQ(tensors.size(), weights.size());
  for (const auto& [name, whole] : weights) {
    const bool prefixed = !spec.tied && !name.starts_with("lm_head");
    const RawTensor& raw = tensors.at(prefixed ? "transformer." + name : name);
    const Tensor values = whole.to(spec.execution.precision.compute).to(at::kDouble).contiguous();
    ASSERT_EQ(raw.count(), values.numel()) << name;
    const std::int64_t rows = values.size(0);
    const std::int64_t columns = values.dim() == 2 ? values.size(1) : 0;
    const bool conv = name.starts_with("h.") && columns > 0;
    EXPECT_EQ(raw.shape, conv ? std::vector<std::int64_t>({columns, rows}) : values.sizes().vec());
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const std::int64_t row = columns > 0 ? i / columns : i;
      const std::int64_t column = columns > 0 ? i % columns : 0;
      ASSERT_EQ(raw.at(place_in_file(spec, name, row, column, rows, columns)),
                values.data_ptr<double>()[i])
          << name << " " << i;
    }
  }
}

void load_everything(const tensor::Mesh& mesh, const model::Part& gpt, const Weights& weights) {
  for (const nn::ParameterPtr& p : gpt.parameters()) load(mesh, *p, weights.at(p->name()));
}

const std::vector<grid::Sizes>& grids() {
  static const std::vector<grid::Sizes> kGrids = {
      {},
      {.x = 2, .y = 2},
      {.x = 2, .y = 2, .z = 2},
      {.y = 4, .z = 2},
      {.z = 3, .data = 2},
      {.x = 2, .data = 2},
      {.z = 2, .data = 2, .pipe = 2},
  };
  return kGrids;
}

TEST(Weights, WrittenOnAnyGridAsGpt2HasThem) {
  for (const bool tied : {true, false}) {
    for (const nn::Precision precision :
         {nn::Precision::float64(), nn::Precision::float32(), nn::Precision::bf16()}) {
      GptSpec spec = small_spec(precision);
      spec.tied = tied;
      const Weights weights = perturbed(initial_weights(spec));
      for (const grid::Sizes& sizes : grids()) {
        const Folder folder;
        const grid::Grid grid(sizes);
        on_threads(grid.ranks(), [&](comm::World& world) {
          const tensor::Mesh mesh(world, grid);
          const model::Stages stages(mesh, gpt_model(spec), 12);
          for (int i = 0; i < stages.chunks(); ++i) load_everything(mesh, stages[i], weights);
          checkpoint::save_weights(mesh, stages, folder.path());
        });
        expect_file(folder.path(), spec, weights);
      }
    }
  }
}

/// Other layouts, the same file; weights are the same along z, and sent once.
TEST(Weights, WrittenAndReadBySumma) {
  for (const bool tied : {true, false}) {
    GptSpec spec = small_spec();
    spec.tied = tied;
    const Weights weights = perturbed(initial_weights(spec));
    for (const grid::Sizes& sizes :
         {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 2, .y = 2, .z = 2, .data = 2},
          grid::Sizes{.x = 4, .y = 4}}) {
      const Folder folder;
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const tensor::Mesh mesh(world, grid);
        GptSpec summa = spec;
        summa.execution.product = nn::ProductKind::kSumma;
        const model::Stages stages(mesh, gpt_model(summa), 8);
        const model::Part& gpt = stages.whole();
        load_everything(mesh, gpt, weights);
        checkpoint::save_weights(mesh, stages, folder.path());
        mesh.everyone().barrier().wait();  // rank 0 has written
        summa.execution.seed = 99;
        const model::Gpt other(mesh, summa, 8);
        checkpoint::load_weights(model::GptModel(summa), other, folder.path());
        for (std::size_t i = 0; i < gpt.parameters().size(); ++i) {
          const auto& name = gpt.parameters()[i]->name();
          expect_on_all_ranks(
              world, at::equal(gpt.parameters()[i]->value(), other.parameters()[i]->value()), name);
        }
      });
      expect_file(folder.path(), spec, weights);
    }
  }
}

TEST(Weights, ReadOnAnyGridFromAnyType) {
  for (const nn::Precision written :
       {nn::Precision::float64(), nn::Precision::float32(), nn::Precision::bf16()}) {
    const Folder folder;
    GptSpec spec = small_spec(written);
    const Weights weights = perturbed(initial_weights(spec));
    on_threads(4, [&](comm::World& world) {
      const tensor::Mesh mesh(world, grid::Grid({.x = 2, .z = 2}));
      const model::Stages stages(mesh, gpt_model(spec), 12);
      load_everything(mesh, stages.whole(), weights);
      checkpoint::save_weights(mesh, stages, folder.path());
    });
    spec.context = 5;  // of the 8 positions in the file
    spec.execution.precision = nn::Precision::float64();
    for (const grid::Sizes& sizes : grids()) {
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const tensor::Mesh mesh(world, grid);
        spec.execution.activations = nn::Activations::kReplicated;
        const model::Gpt gpt(mesh, spec, 12);
        checkpoint::load_weights(model::GptModel(spec), gpt, folder.path());
        for (const nn::ParameterPtr& p : gpt.parameters()) {
          Tensor whole = weights.at(p->name()).to(written.compute).to(at::kDouble);
          if (p->name() == "wpe.weight") whole = whole.narrow(0, 0, 5);
          const grid::Block block = block_here(mesh, *p);
          expect_on_all_ranks(world,
                              at::equal(real_part(p->value(), block), block_of(whole, block)),
                              concat(grid, ": ", p->name()));
        }
      });
    }
  }
}

/// A file written here, as GPT2LMHeadModel saves it: prefix, buffers that are no weights, F16.
TEST(Weights, ReadsTheFilesOfOthers) {
  const Folder folder;
  GptSpec spec = small_spec(nn::Precision::float32());
  spec.layers = 1;
  const Weights weights = perturbed(initial_weights(spec));
  nlohmann::json header;
  std::string data;
  const auto put = [&](const std::string& name, const Tensor& tensor) {
    const Tensor half = tensor.to(at::kHalf).contiguous();
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(half.data_ptr()), half.nbytes());
    header[name] = {
        {"dtype", "F16"}, {"shape", half.sizes().vec()}, {"data_offsets", {begin, data.size()}}};
  };
  for (const auto& [name, whole] : weights) {
    Tensor file = whole;
    if (name.find("c_attn") != std::string::npos) {
      // [head][part][i] -> [part][head][i]
      std::vector<std::int64_t> sizes = {spec.heads, 3, spec.width / spec.heads};
      if (whole.dim() == 2) sizes.push_back(spec.width);
      file = whole.view(sizes).transpose(0, 1).reshape(whole.sizes());
    }
    if (name.starts_with("h.") && whole.dim() == 2) file = file.t();
    put("transformer." + name, file);
  }
  put("transformer.h.0.attn.bias", at::zeros({1, 1, 8, 8}));
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream file(folder.path() + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << text << data;
  file.close();
  on_threads(4, [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.x = 2, .y = 2}));
    const model::Gpt gpt(mesh, spec, 4);
    checkpoint::load_weights(model::GptModel(spec), gpt, folder.path());
    for (const nn::ParameterPtr& p : gpt.parameters()) {
      const Tensor whole = weights.at(p->name()).to(at::kHalf).to(at::kFloat);
      const grid::Block block = block_here(mesh, *p);
      expect_on_all_ranks(world, at::equal(real_part(p->value(), block), block_of(whole, block)),
                          p->name());
    }
  });
}

/// Weights are read a few rows at a time, into what is there: nothing is held twice.
TEST(Weights, TakeLittleMemoryToRead) {
  constexpr std::int64_t kMib = 1 << 20;
  const Folder folder;
  GptSpec spec = small_spec(nn::Precision::bf16());
  spec.vocabulary = 8192;
  spec.width = 384;  // the table is 12 MiB in float
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  const model::Stages written(mesh, gpt_model(spec), 1);
  checkpoint::save_weights(mesh, written, folder.path());
  spec.execution.seed = 99;
  tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  const model::Gpt gpt(mesh, spec, 1);
  EXPECT_EQ(meter.now().total(), Bytes(0));  // a model has no memory until it has values
  checkpoint::load_weights(model::GptModel(spec), gpt, folder.path());
  std::int64_t own = 0;
  for (const nn::ParameterPtr& p : gpt.parameters()) {
    own += static_cast<std::int64_t>(p->value().nbytes());
  }
  EXPECT_EQ(meter.now()[tensor::MemoryClass::kParameters], Bytes(own));
  EXPECT_LT(meter.at_peak().total(), Bytes(own + 4 * kMib));
  for (std::size_t i = 0; i < gpt.parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(gpt.parameters()[i]->value(), written.whole().parameters()[i]->value()));
  }
}

/// What loading into a model of `spec` says.
std::string complaint(const GptSpec& spec, const std::string& folder) {
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  const model::Gpt gpt(mesh, spec, 1);
  try {
    checkpoint::load_weights(model::GptModel(spec), gpt, folder);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Weights, RefusesWhatDoesNotFit) {
  const Folder folder;
  const GptSpec spec = small_spec();
  {
    comm::World world = comm::self::open();
    const tensor::Mesh mesh(world, grid::Grid());
    checkpoint::save_weights(mesh, model::Stages(mesh, gpt_model(spec), 1), folder.path());
  }
  EXPECT_EQ(complaint(spec, folder.path()), "");
  const auto expect = [&](const GptSpec& wrong, const std::string& words) {
    EXPECT_NE(complaint(wrong, folder.path()).find(words), std::string::npos)
        << complaint(wrong, folder.path());
  };
  GptSpec wrong = spec;
  wrong.layers = 3;
  expect(wrong, "lack h.2.");
  wrong = spec;
  wrong.vocabulary = 38;
  expect(wrong, "wte.weight in");
  wrong = spec;
  wrong.context = 9;
  expect(wrong, "wpe.weight in");
  wrong = spec;
  wrong.tied = false;
  expect(wrong, "lack lm_head.weight");
  EXPECT_NE(complaint(spec, folder.path() + "/none").find("none"), std::string::npos);
}

/// Bytes of shards that were under way at once, by the order of operations and waits.
Bytes most_underway(const schedule::Schedule& schedule) {
  std::map<std::int64_t, Bytes> sizes;
  Bytes now;
  Bytes most;
  for (const schedule::Step& step : schedule.steps()) {
    if (const auto* issue = std::get_if<schedule::Issue>(&step)) {
      sizes[issue->number] = issue->collective.payload();
      now += issue->collective.payload();
      most = std::max(most, now);
    } else if (const auto* wait = std::get_if<schedule::Wait>(&step)) {
      now -= std::exchange(sizes[wait->number], Bytes());
    }
  }
  return most;
}

/// Shards travel ahead of their use, and never more of them than the window holds.
TEST(Weights, AreSentAheadWithinAWindow) {
  GptSpec spec = small_spec();
  spec.layers = 6;
  const Weights weights = perturbed(initial_weights(spec));
  const grid::Grid grid({.x = 2, .y = 2, .data = 2});
  const Bytes largest_shard(96 * 24 * 8 / 4);  // of the layers' matrices
  const Bytes largest_tensor(96 * 24 * 8);
  for (const Bytes window : {Bytes(1), Bytes(20'000), Bytes(1 << 30)}) {
    const Folder folder;
    on_threads(grid.ranks(), [&](comm::World& world) {
      tensor::Mesh mesh(world, grid);
      const model::Stages stages(mesh, gpt_model(spec), 8);
      load_everything(mesh, stages.whole(), weights);
      schedule::Schedule schedule;
      tensor::MemoryMeter meter;
      {
        const tensor::MemoryMeter::Counting counting(meter);
        const comm::Recording recording(world, schedule);
        checkpoint::save_weights(mesh, stages, folder.path(), window);
      }
      const bool takes_part = world.rank() < 4;  // data=0
      const Bytes most = most_underway(schedule);
      expect_on_all_ranks(world, most <= std::max(window, largest_shard), concat(most));
      expect_on_all_ranks(world, takes_part == (most > Bytes()), concat(most));
      const bool ahead = window > largest_shard;
      expect_on_all_ranks(world, !takes_part || !ahead || most > largest_shard, concat(most));
      // Rank 0 has the window, the tensor, and its copies.
      const Bytes held = meter.at_peak().total();
      expect_on_all_ranks(
          world, world.rank() != 0 || held <= std::max(most, largest_shard) + 4 * largest_tensor,
          concat("rank 0 held ", held));
    });
    expect_file(folder.path(), spec, weights);
  }
}

}  // namespace
}  // namespace fourfold::test
