// Which GPU a rank takes, and what is said where there are too few or none.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/gpu.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::test {
namespace {

using train::ChosenGpu;

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Gpu, EachRankOfAHostTakesItsOwn) {
  EXPECT_EQ(train::gpu_of_rank(4, {.index = 2, .size = 4}, "a"), 2);
  EXPECT_EQ(train::gpu_of_rank(4, {.index = 1, .size = 2}, "a"), 1);
  EXPECT_EQ(train::gpu_of_rank(1, {.index = 0, .size = 1}, "a"), 0);
  // Each rank sees another one, and each calls it 0.
  EXPECT_EQ(train::gpu_of_rank(1, {.index = 3, .size = 4}, "a"), 0);
}

TEST(Gpu, TooFewAreRefused) {
  EXPECT_EQ(refusal_of([] { train::gpu_of_rank(2, {.index = 1, .size = 4}, "nid7"); }),
            "host nid7 has 4 ranks, and each sees 2 GPUs; start at most 2 ranks on a host, or let "
            "each rank see only its own GPU (CUDA_VISIBLE_DEVICES, or srun --gpus-per-task=1)");
}

TEST(Gpu, OneForSeveralRanksIsNamed) {
  const std::vector<ChosenGpu> own = {{"a", "07:00"}, {"a", "0b:00"}, {"b", "07:00"}};
  EXPECT_EQ(train::shared_gpu(own), "");
  std::vector<ChosenGpu> shared = own;
  shared.push_back({"b", "07:00"});
  EXPECT_EQ(train::shared_gpu(shared),
            "ranks 2 and 3 would both compute on the GPU 07:00 of host b, the only one that they "
            "see; start one rank for each GPU of a host");
}

TEST(Gpu, WhereThereIsNoneTheConfigurationIsRefused) {
  const tensor::Gpus gpus = tensor::find_gpus();
  if (!gpus.list.empty()) GTEST_SKIP() << "this host has GPUs";
  EXPECT_FALSE(gpus.missing.empty());
  comm::World world = comm::self::open();
  const config::DeviceConfig cuda{.kind = config::DeviceKind::kCuda};
  const std::string expected =
      gpus.backend.empty() ? "device.kind = \"cuda\" needs a program that was built for CUDA "
                             "(docs/gpu.md), and this one was built for the processor; set "
                             "device.kind = \"cpu\""
                           : "device.kind = \"cuda\", but " + gpus.missing +
                                 "; set device.kind = \"cpu\" to train on the processor";
  EXPECT_EQ(refusal_of([&] { train::check_gpus(cuda); }), expected);
  EXPECT_EQ(refusal_of([&] { train::open_device(world, cuda); }), expected);
  EXPECT_EQ(refusal_of([&] {
              config::Config config;
              config.device = cuda;
              train::memory_for_training(config, 1);
            }),
            expected);
  EXPECT_NO_THROW(train::check_gpus({}));
  EXPECT_EQ(train::open_device(world, {}), c10::Device(c10::kCPU));
  EXPECT_FALSE(world.has_device());
}

TEST(Gpu, ThatIsFullIsDescribedByClass) {
  tensor::MemoryUse use;
  use.by_class[0] = Bytes(std::int64_t{3} << 30);
  use.by_class[5] = Bytes(std::int64_t{1} << 30);
  const std::string said = train::describe_full_gpu(5, use, Bytes(std::int64_t{2} << 30));
  EXPECT_NE(said.find("rank 5 has no room left on its GPU: its tensors take 3.00 GiB (parameters "
                      "3.00 GiB, gradients 0 B"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("workspace 1.00 GiB), and a dry run expects at most 2.00 GiB; the rest"),
            std::string::npos)
      << said;
}

TEST(Gpu, ThatIsFullIsOneLineWhereverItHappens) {
  const tensor::MemoryMeter meter;
  const auto said = [&](const std::string& during, const std::function<Bytes()>& expected) {
    try {
      train::explain_full_gpu(during, 3, meter, expected, [] {
        throw c10::OutOfMemoryError({"allocate", "memory.cpp", 1}, "no memory\nand where");
      });
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::string begin = "rank 3 has no room left on its GPU: its tensors take 0 B (";
  EXPECT_EQ(said("validating", [] { return Bytes(5); }).find("validating: " + begin), 0U);
  EXPECT_NE(said("validating", [] { return Bytes(5); }).find("expects at most 5 B"),
            std::string::npos);
  EXPECT_EQ(said("", {}).find(begin), 0U);
  EXPECT_EQ(said("", {}).find("dry run"), std::string::npos);
  EXPECT_EQ(said("", {}).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace fourfold::test
