// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/collectives.hpp"

#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::tensor {

namespace {

/// A tensor like `in` with another size of the first dimension.
Tensor like(const Tensor& in, std::int64_t first) {
  std::vector<std::int64_t> sizes = in.sizes().vec();
  sizes[0] = first;
  return at::empty(sizes, in.options());
}

}  // namespace

namespace {

thread_local bool main_memory_is_device = false;

}  // namespace

MainMemoryIsDevice::MainMemoryIsDevice() : before_(std::exchange(main_memory_is_device, true)) {}
MainMemoryIsDevice::~MainMemoryIsDevice() {
  main_memory_is_device = before_;
}

bool on_device(const Tensor& tensor) {
  return tensor.is_cuda() || (tensor.is_cpu() && main_memory_is_device);
}

comm::View view(const Tensor& tensor) {
  FOURFOLD_CHECK(tensor.is_contiguous(), "only contiguous tensors are communicated");
  void* data = tensor.is_meta() ? nullptr : tensor.data_ptr();
  return {.data = data,
          .count = tensor.numel(),
          .dtype = dtype_of(tensor.scalar_type()),
          .memory = on_device(tensor) ? comm::Memory::kDevice : comm::Memory::kHost};
}

Pending all_gather(const comm::Communicator& comm, const Tensor& in, comm::Priority priority) {
  if (comm.size() == 1) return Pending(in);
  const MemoryScope scope(MemoryClass::kCommunication);
  Tensor out = like(in, in.size(0) * comm.size());
  comm::Work work = comm.all_gather(view(in), view(out), priority);
  return {in, std::move(out), std::move(work)};
}

Pending reduce_scatter(const comm::Communicator& comm, const Tensor& in, comm::Priority priority) {
  if (comm.size() == 1) return Pending(in);
  FOURFOLD_CHECK_EQ(in.size(0) % comm.size(), 0, "rows do not divide");
  Tensor out = like(in, in.size(0) / comm.size());
  comm::Work work = comm.reduce_scatter(view(in), view(out), comm::ReduceOp::kSum, priority);
  return {in, std::move(out), std::move(work)};
}

Pending all_reduce(const comm::Communicator& comm, const Tensor& in, comm::ReduceOp op) {
  if (comm.size() == 1) return Pending(in);
  comm::Work work = comm.all_reduce(view(in), op);
  return {in, in, std::move(work)};
}

}  // namespace fourfold::tensor
