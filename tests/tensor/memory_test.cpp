// What the memory meter counts: real and meta tensors, by class, thread and time.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/memory.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using tensor::MemoryClass;
using tensor::MemoryMeter;
using tensor::MemoryScope;
using tensor::MemoryUse;
using Counting = MemoryMeter::Counting;

Tensor tensor_of(std::int64_t bytes, c10::Device device = c10::kCPU) {
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
}

/// Bytes of each class, in the order of the enumeration.
MemoryUse use(std::int64_t parameters, std::int64_t gradients, std::int64_t optimizer,
              std::int64_t activations, std::int64_t communication, std::int64_t workspace = 0) {
  return {{Bytes(parameters), Bytes(gradients), Bytes(optimizer), Bytes(activations),
           Bytes(communication), Bytes(workspace)}};
}

class MemoryOn : public testing::TestWithParam<c10::DeviceType> {};

TEST_P(MemoryOn, CountsAsAnotherClass) {
  const MemoryMeter meter;
  const Counting counting(meter);
  Tensor result;
  {
    const MemoryScope scope(MemoryClass::kWorkspace);
    const Tensor scratch = tensor_of(70, GetParam());
    result = tensor_of(100, GetParam());
  }
  EXPECT_EQ(meter.now(), use(0, 0, 0, 0, 0, 100));
  tensor::count_as(result.view({10, 10}), MemoryClass::kActivations);
  EXPECT_EQ(meter.now(), use(0, 0, 0, 100, 0));
  EXPECT_EQ(meter.at_peak().total(), Bytes(100));
  result = Tensor();
  EXPECT_EQ(meter.now(), MemoryUse{});
  {
    const MemoryScope scope(MemoryClass::kWorkspace);
    result = tensor_of(100, GetParam());
  }
  MemoryMeter limited = meter;
  limited.set_limit(Bytes(99), [](const tensor::MemoryExcess&) { return "too much"; });
  EXPECT_THROW(tensor::count_as(result, MemoryClass::kActivations), ConfigError);
  limited.lift_limit();
  tensor::count_as(Tensor(at::empty({0}, at::kByte)), MemoryClass::kActivations);
}

TEST_P(MemoryOn, CountsByClass) {
  const MemoryMeter meter;
  const Counting counting(meter);
  EXPECT_EQ(meter.now(), MemoryUse{});
  const Tensor activation = tensor_of(100, GetParam());
  Tensor parameter;
  Tensor gradient;
  {
    const MemoryScope scope(MemoryClass::kParameters);
    parameter = tensor_of(1000, GetParam());
    {
      const MemoryScope inner(MemoryClass::kGradients);
      gradient = tensor_of(20, GetParam());
    }
    const Tensor second = tensor_of(3, GetParam());
    EXPECT_EQ(meter.now(), use(1003, 20, 0, 100, 0));
  }
  const MemoryScope scope(MemoryClass::kOptimizer);
  EXPECT_EQ(meter.now(), use(1000, 20, 0, 100, 0));
  EXPECT_EQ(meter.now().total(), Bytes(1120));
  EXPECT_EQ(meter.now()[MemoryClass::kGradients], Bytes(20));
  gradient = Tensor();  // freed as what it was made
  EXPECT_EQ(meter.now(), use(1000, 0, 0, 100, 0));
}

TEST_P(MemoryOn, ViewsAndEmptyTensorsCostNothing) {
  const MemoryMeter meter;
  const Counting counting(meter);
  Tensor whole = tensor_of(64, GetParam());
  const Tensor view = whole.narrow(0, 3, 4);
  const Tensor other = whole.view({8, 8}).t();
  const Tensor nothing = tensor_of(0, GetParam());
  EXPECT_EQ(meter.now(), use(0, 0, 0, 64, 0));
  whole = Tensor();
  EXPECT_EQ(meter.now(), use(0, 0, 0, 64, 0)) << "its views are alive";
}

TEST_P(MemoryOn, KeepsThePeaks) {
  MemoryMeter meter;
  const Counting counting(meter);
  {
    const MemoryScope scope(MemoryClass::kCommunication);
    tensor_of(70, GetParam());
  }
  {
    const Tensor a = tensor_of(50, GetParam());
    const MemoryScope scope(MemoryClass::kGradients);
    const Tensor b = tensor_of(40, GetParam());
  }
  tensor_of(60, GetParam());
  EXPECT_EQ(meter.now(), MemoryUse{});
  EXPECT_EQ(meter.at_peak(), use(0, 40, 0, 50, 0));
  EXPECT_EQ(meter.peaks(), use(0, 40, 0, 60, 70));
  const Tensor kept = tensor_of(5, GetParam());
  meter.reset_peak();
  EXPECT_EQ(meter.at_peak(), use(0, 0, 0, 5, 0));
  EXPECT_EQ(meter.peaks(), use(0, 0, 0, 5, 0));
  tensor_of(2, GetParam());
  EXPECT_EQ(meter.at_peak(), use(0, 0, 0, 7, 0));
}

/// It differs from processor to processor, and the peak must not.
TEST_P(MemoryOn, WorkspaceIsOutsideOfTotalAndPeak) {
  const MemoryMeter meter;
  const Counting counting(meter);
  const Tensor kept = tensor_of(5, GetParam());
  {
    const MemoryScope scope(MemoryClass::kWorkspace);
    const Tensor scratch = tensor_of(1000, GetParam());
    EXPECT_EQ(meter.now(), use(0, 0, 0, 5, 0, 1000));
    EXPECT_EQ(meter.now().total(), Bytes(5));
  }
  EXPECT_EQ(meter.at_peak(), use(0, 0, 0, 5, 0));
  EXPECT_EQ(meter.peaks(), use(0, 0, 0, 5, 0, 1000));
}

TEST_P(MemoryOn, CountsOnlyWhileAsked) {
  const MemoryMeter meter;
  Tensor before = tensor_of(10, GetParam());
  Tensor during;
  {
    const Counting counting(meter);
    during = tensor_of(20, GetParam());
    before = Tensor();
  }
  const Tensor after = tensor_of(40, GetParam());
  EXPECT_EQ(meter.now(), use(0, 0, 0, 20, 0));
  during = Tensor();
  EXPECT_EQ(meter.now(), MemoryUse{}) << "freed after the counting";
}

TEST_P(MemoryOn, InnerMetersTakeOver) {
  const MemoryMeter outer;
  const MemoryMeter inner;
  const Counting first(outer);
  const Tensor a = tensor_of(1, GetParam());
  Tensor b;
  {
    const Counting second(inner);
    b = tensor_of(2, GetParam());
  }
  const Tensor c = tensor_of(4, GetParam());
  EXPECT_EQ(outer.now().total(), Bytes(5));
  EXPECT_EQ(inner.now().total(), Bytes(2));
}

/// Ranks are threads: each has its own meter and class.
TEST_P(MemoryOn, ThreadsAreIndependent) {
  const MemoryMeter meters[2];
  const MemoryMeter mine;
  const Counting counting(mine);
  const MemoryScope scope(MemoryClass::kOptimizer);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      tensor_of(1000, GetParam());  // nobody counts it
      const Counting here(meters[rank]);
      for (int i = 0; i < 2000; ++i) {
        const Tensor a = tensor_of(100 + rank, GetParam());
        const MemoryScope gradients(MemoryClass::kGradients);
        const Tensor b = tensor_of(30 + rank, GetParam());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mine.peaks(), MemoryUse{});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(meters[rank].now(), MemoryUse{});
    EXPECT_EQ(meters[rank].at_peak(), use(0, 30 + rank, 0, 100 + rank, 0));
  }
}

TEST_P(MemoryOn, AnotherThreadMayFree) {
  const MemoryMeter meter;
  const Counting counting(meter);
  Tensor tensor = tensor_of(100, GetParam());
  const MemoryMeter other;
  std::thread([&] {
    const Counting here(other);
    tensor = Tensor();
  }).join();
  EXPECT_EQ(meter.now(), MemoryUse{});
  EXPECT_EQ(other.now(), MemoryUse{});
}

TEST_P(MemoryOn, TensorsMayOutliveTheMeter) {
  Tensor tensor;
  {
    const MemoryMeter meter;
    const Counting counting(meter);
    tensor = tensor_of(100, GetParam());
  }
  if (tensor.is_cpu()) {
    tensor.fill_(7);
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 700);
  }
  tensor = Tensor();
  const MemoryMeter next;
  EXPECT_EQ(next.now(), MemoryUse{});
}

/// What libtorch allocates inside operations is counted as well, in full.
TEST_P(MemoryOn, CountsResultsOfOperations) {
  const MemoryMeter meter;
  const Counting counting(meter);
  const auto options = at::TensorOptions(at::kDouble).device(GetParam());
  const Tensor a = at::zeros({10, 20}, options);
  const Tensor b = at::add(a, a);
  EXPECT_EQ(meter.now(), use(0, 0, 0, 2 * 10 * 20 * 8, 0));
  const Tensor c = at::mm(a, b.t());
  EXPECT_EQ(meter.now(), use(0, 0, 0, 2 * 10 * 20 * 8 + 10 * 10 * 8, 0));
}

TEST_P(MemoryOn, ALimitRefusesWhatWouldExceedIt) {
  MemoryMeter meter;
  const Counting counting(meter);
  const Tensor before = tensor_of(60, GetParam());
  meter.set_limit(Bytes(100), [](const tensor::MemoryExcess& excess) {
    return concat(excess.bytes, " for ", to_string(excess.kind), " after ", excess.use.total(),
                  " of ", excess.limit);
  });
  {
    const Tensor fits = tensor_of(40, GetParam());
    const MemoryScope scope(MemoryClass::kWorkspace);
    EXPECT_NO_THROW(tensor_of(1000, GetParam())) << "no total contains it";
  }
  try {
    const MemoryScope scope(MemoryClass::kGradients);
    tensor_of(41, GetParam());
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "41 B for gradients after 60 B of 100 B");
  }
  EXPECT_EQ(meter.now(), use(0, 0, 0, 60, 0)) << "what was refused does not count";
  EXPECT_EQ(meter.at_peak().total(), Bytes(100));
  EXPECT_NO_THROW(tensor_of(40, GetParam()));
  meter.lift_limit();
  EXPECT_NO_THROW(tensor_of(1000, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryOn, testing::Values(c10::kCPU, c10::kMeta),
                         [](const auto& parameter) {
                           return c10::DeviceTypeName(parameter.param, true);
                         });

// --- memory by plain addresses, as the libraries inside libtorch take it

TEST(RawMemory, IsFreedByItsAddress) {
  c10::Allocator& allocator = *c10::GetAllocator(c10::kCPU);
  for (const bool counted : {false, true}) {
    const MemoryMeter meter;
    std::optional<Counting> counting;
    if (counted) counting.emplace(meter);
    for (const std::size_t bytes : {1, 63, 64, 65, 4096, 1 << 20}) {
      void* data = allocator.raw_allocate(bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U) << bytes;
      std::memset(data, 0xab, bytes);
      EXPECT_EQ(meter.now().total(), Bytes(counted ? static_cast<std::int64_t>(bytes) : 0));
      allocator.raw_deallocate(data);
      EXPECT_EQ(meter.now(), MemoryUse{}) << bytes;
    }
    EXPECT_EQ(allocator.raw_allocate(0), nullptr);
    allocator.raw_deallocate(nullptr);
    EXPECT_EQ(meter.now(), MemoryUse{});
  }
}

/// Who frees by address does not know whether it was counted when it was allocated.
TEST(RawMemory, CountingMayBeginAndEndMeanwhile) {
  c10::Allocator& allocator = *c10::GetAllocator(c10::kCPU);
  void* before = allocator.raw_allocate(100);
  void* during = nullptr;
  const MemoryMeter meter;
  {
    const Counting counting(meter);
    during = allocator.raw_allocate(200);
    allocator.raw_deallocate(before);
    EXPECT_EQ(meter.now().total(), Bytes(200));
  }
  void* after = allocator.raw_allocate(400);
  allocator.raw_deallocate(during);
  EXPECT_EQ(meter.now(), MemoryUse{});
  allocator.raw_deallocate(after);
}

TEST(RawMemory, AnotherThreadMayFree) {
  c10::Allocator& allocator = *c10::GetAllocator(c10::kCPU);
  const MemoryMeter meter;
  const Counting counting(meter);
  void* data = allocator.raw_allocate(100);
  std::thread([&] { allocator.raw_deallocate(data); }).join();
  EXPECT_EQ(meter.now(), MemoryUse{});
}

/// What libtorch asks of an allocator with a raw deleter.
TEST(RawMemory, EveryPieceHasItsAddressAsContext) {
  const c10::Allocator& allocator = *c10::GetAllocator(c10::kCPU);
  ASSERT_NE(allocator.raw_deleter(), nullptr);
  const MemoryMeter meter;
  for (const bool counted : {false, true}) {
    std::optional<Counting> counting;
    if (counted) counting.emplace(meter);
    for (const std::int64_t bytes : {0, 1, 1000}) {
      const Tensor tensor = tensor_of(bytes);
      const c10::DataPtr& memory = tensor.storage().data_ptr();
      EXPECT_EQ(memory.get(), memory.get_context()) << bytes;
      EXPECT_EQ(memory.get_deleter(), allocator.raw_deleter()) << bytes;
    }
  }
}

TEST(RawMemory, TensorsGrowInPlace) {
  const MemoryMeter meter;
  const Counting counting(meter);
  Tensor tensor = tensor_of(10).fill_(3);
  tensor.resize_({1000});
  EXPECT_EQ(meter.now().total(), Bytes(1000));
  EXPECT_EQ(tensor.narrow(0, 0, 10).sum().item<std::int64_t>(), 30);
}

TEST(Memory, ClassesHaveNames) {
  EXPECT_EQ(to_string(MemoryClass::kParameters), "parameters");
  EXPECT_EQ(to_string(MemoryClass::kCommunication), "communication");
  EXPECT_EQ(to_string(MemoryClass::kWorkspace), "workspace");
}

}  // namespace
}  // namespace fourfold::test
