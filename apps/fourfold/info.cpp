// fourfold info: the versions of the program and its libraries, and the abilities of the machine.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unistd.h>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/file.hpp"
#include "fourfold/base/processor.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/launch/blas_core.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/launcher.hpp"
#include "fourfold/tensor/gemm_rate.hpp"
#include "fourfold/tensor/gpus.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/ranks.hpp"

namespace fourfold::app {

namespace {

using schedule::DType;

/// What one rank reports about itself. It is sent byte by byte.
struct RankInfo {
  std::int64_t process = 0;
  std::int64_t threads = 0;
  std::array<char, 64> cores{};
  double gemm_f32 = 0;
  double gemm_bf16 = 0;
  std::array<std::int64_t, kChoices> ways{};  ///< by choice: the way that is taken
};

RankInfo measure(comm::World& world, const comm::Communicator& everyone) {
  RankInfo info;
  info.process = getpid();
  info.threads = launch::kernel_threads();
  std::snprintf(info.cores.data(), info.cores.size(), "%s", launch::bind_to_cores().cores.c_str());
  for (std::size_t i = 0; i < kChoices; ++i) {
    info.ways[i] = way_of(static_cast<Choice>(i));
  }
  // All ranks measure at once, as in training, since they share the memory and the power of the
  // machine.
  if (world.size() > 1) everyone.barrier().wait();
  info.gemm_f32 = tensor::gemm_rate(DType::kF32).value();
  if (world.size() > 1) everyone.barrier().wait();
  info.gemm_bf16 = tensor::gemm_rate(DType::kBF16).value();
  return info;
}

std::vector<RankInfo> gather(const comm::Communicator& everyone, const RankInfo& own) {
  static_assert(sizeof(RankInfo) % sizeof(std::int64_t) == 0);
  constexpr std::int64_t kWords = sizeof(RankInfo) / sizeof(std::int64_t);
  std::vector<RankInfo> all(static_cast<std::size_t>(everyone.size()));
  everyone
      .all_gather({&own, kWords, DType::kI64}, {all.data(), kWords * everyone.size(), DType::kI64})
      .wait();
  return all;
}

/// The parts of AMX that libtorch's kernels for bf16 may use.
std::string tiles() {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string limited = limit != nullptr ? concat(", ONEDNN_MAX_CPU_ISA=", limit) : "";
  switch (tiles_of_processor()) {
    case Tiles::kNone:
      return "none" + limited;
    case Tiles::kUsable:
      return "there" + limited;
    case Tiles::kNotDescribed:
      return "not described by the processor" + limited;
  }
  return "";
}

/// Whether all ranks have made the same choices as rank 0. The ranks of a job should compute in the
/// same way.
bool ranks_agree(const std::vector<RankInfo>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const RankInfo& rank) { return rank.ways == ranks[0].ways; });
}

nlohmann::json to_json(const tensor::Gpus& gpus) {
  nlohmann::json json = {
      {"backend", gpus.backend}, {"missing", gpus.missing}, {"list", nlohmann::json::array()}};
  for (const tensor::Gpu& gpu : gpus.list) {
    json["list"].push_back({{"name", gpu.name},
                            {"architecture", gpu.architecture},
                            {"memory_bytes", gpu.memory.value()},
                            {"bus", gpu.bus},
                            {"peers", gpu.peers},
                            {"misfit", gpu.misfit}});
  }
  return json;
}

/// One line for the backend and one for each GPU: what the first rank's host has.
std::vector<std::string> lines_of(const tensor::Gpus& gpus) {
  const std::string built = gpus.backend.empty() ? "" : concat(" (built for ", gpus.backend, ")");
  if (!gpus.missing.empty()) return {concat("none: ", gpus.missing, built)};
  std::vector<std::string> lines = {gpus.backend};
  for (std::size_t i = 0; i < gpus.list.size(); ++i) {
    const tensor::Gpu& gpu = gpus.list[i];
    std::string line =
        concat(i, ": ", gpu.name, ", ", gpu.architecture, ", ", gpu.memory, ", at ", gpu.bus);
    if (!gpu.peers.empty()) line += concat(", linked to ", join(gpu.peers, " "));
    if (!gpu.misfit.empty()) line += concat("; not usable: ", gpu.misfit);
    lines.push_back(std::move(line));
  }
  return lines;
}

nlohmann::json choices() {
  nlohmann::json json;
  for (std::size_t i = 0; i < kChoices; ++i) {
    const ChoiceText text = describe(static_cast<Choice>(i));
    std::string key = text.name;
    std::replace(key.begin(), key.end(), ' ', '_');
    json[key] = {{"way", text.way}, {"by", text.by}};
  }
  return json;
}

nlohmann::json to_json(const comm::World& world, const std::vector<RankInfo>& ranks) {
  nlohmann::json json = {{"version", FOURFOLD_VERSION},
                         {"libtorch", tensor::libtorch_version()},
                         {"blas", tensor::blas_library()},
                         {"blas_kernels", launch::blas_core()},
                         {"mpi", comm::mpi::library_version()},
                         {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                         {"gpus", to_json(tensor::find_gpus())},
                         {"choices", choices()},
                         {"ranks_choose_alike", ranks_agree(ranks)},
                         {"amx_tiles", tiles()},
                         {"ranks", nlohmann::json::array()}};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    json["ranks"].push_back({{"rank", i},
                             {"host", world.host(static_cast<int>(i))},
                             {"process", ranks[i].process},
                             {"cores", ranks[i].cores.data()},
                             {"threads", ranks[i].threads},
                             {"gemm_f32_flops_per_second", ranks[i].gemm_f32},
                             {"gemm_bf16_flops_per_second", ranks[i].gemm_bf16}});
  }
  return json;
}

void print(const comm::World& world, const std::vector<RankInfo>& ranks) {
  const auto line = [](const std::string& name, const std::string& text) {
    std::printf("%-14s %s\n", name.c_str(), text.c_str());
  };
  line("Fourfold", FOURFOLD_VERSION);
  line("libtorch", tensor::libtorch_version());
  line("BLAS", tensor::blas_library());
  if (!launch::blas_core().empty()) line("BLAS kernels", launch::blas_core());
  line("MPI", comm::mpi::library_version());
  line("backends", "self, thread, mpi, recording");
  line("cores", concat(sysconf(_SC_NPROCESSORS_ONLN), " on this host"));
  std::string title = "GPUs";
  for (const std::string& text : lines_of(tensor::find_gpus()))
    line(std::exchange(title, ""), text);
  for (std::size_t i = 0; i < kChoices; ++i) {
    const ChoiceText text = describe(static_cast<Choice>(i));
    line(text.name, concat(text.way, " (", text.by, ")"));
  }
  line("AMX tiles", tiles());
  std::printf("\n");
  std::printf("%4s  %-16s %8s  %-8s %7s  %14s  %14s\n", "rank", "host", "process", "cores",
              "threads", "GEMM f32", "GEMM bf16");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::printf("%4zu  %-16s %8lld  %-8s %7lld  %14s  %14s\n", i,
                world.host(static_cast<int>(i)).c_str(), static_cast<long long>(ranks[i].process),
                ranks[i].cores.data(), static_cast<long long>(ranks[i].threads),
                to_string(FlopsPerSecond(ranks[i].gemm_f32)).c_str(),
                to_string(FlopsPerSecond(ranks[i].gemm_bf16)).c_str());
  }
  if (!ranks_agree(ranks)) {
    std::printf(
        "\nThe ranks' processors differ, and so do their ways to compute: results of different "
        "ranks are\nrounded differently. FOURFOLD_VECTORS, FOURFOLD_BF16_PRODUCTS and "
        "FOURFOLD_KERNELS force one way on all.\n");
  }
  if (tensor::blas_library().find("openblas") == std::string::npos) {
    std::printf(
        "\nThe BLAS library is not OpenBLAS; products in f32 and f64 may be many times slower "
        "than they\ncould be. On Debian: apt-get install libopenblas0-pthread\n");
  }
}

void run(comm::World& world, const std::string& json_path) {
  const auto everyone = world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  const std::vector<RankInfo> ranks = gather(everyone, measure(world, everyone));
  if (world.rank() != 0) return;
  print(world, ranks);
  if (!json_path.empty()) write_text(json_path, to_json(world, ranks).dump(2) + "\n");
}

}  // namespace

void add_info(CLI::App& app, Command& command) {
  struct Options {
    RankOptions ranks;
    std::string json;
  };
  auto options = std::make_shared<Options>();
  CLI::App* info = app.add_subcommand(
      "info", "versions, the speed of matrix products, and where each rank would run");
  add_rank_options(*info, options->ranks);
  info->add_option("--json", options->json, "write the result to this file as well");
  info->callback([options, &command] {
    command = [options](char** argv) {
      if (!options->json.empty()) check_writable("--json", options->json);
      return run_on_ranks(options->ranks, argv,
                          [&](comm::World& world) { run(world, options->json); });
    };
  });
}

}  // namespace fourfold::app
