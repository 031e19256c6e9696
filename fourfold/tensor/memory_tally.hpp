// The counts of a memory meter, for the files that know where memory comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include <c10/core/Device.h>

#include "fourfold/tensor/memory.hpp"

namespace fourfold::tensor {

/// The counts of a meter. The tally outlives its meter, since tensors may do so. Any thread.
class MemoryTally {
 public:
  explicit MemoryTally(c10::DeviceType device);

  /// Whose memory is counted. Meta tensors count as memory of the processor.
  c10::DeviceType device() const { return device_; }

  void add(MemoryClass kind, std::int64_t bytes);
  /// Throws ConfigError if an allocation of that size would exceed the limit.
  void check_limit(MemoryClass kind, std::int64_t bytes) const;
  void set_limit(Bytes limit, std::function<std::string(const MemoryExcess&)> describe);
  MemoryUse now() const;
  MemoryUse at_peak() const;
  MemoryUse peaks() const;
  void reset_peak();

 private:
  c10::DeviceType device_;
  mutable std::mutex mutex_;
  MemoryUse now_;
  MemoryUse at_peak_;
  MemoryUse peaks_;
  Bytes limit_;
  std::function<std::string(const MemoryExcess&)> describe_;
};

/// The tally that counts what the calling thread allocates on such devices; null if none does.
std::shared_ptr<MemoryTally> tally_of_thread(c10::DeviceType device);
/// The class of what the calling thread allocates.
MemoryClass class_of_thread();

/// `count_as` for the memory of GPUs at that address.
void count_gpu_memory_as(const void* data, MemoryClass kind);

}  // namespace fourfold::tensor
