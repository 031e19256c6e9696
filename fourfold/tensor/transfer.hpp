// Between the host and the device of a rank. Where the device is the host's processor, nothing is
// copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// A tensor in main memory, brought to the device of the mesh. The host does not wait for the copy:
/// a device reads pinned memory by itself.
Tensor upload(const Mesh& mesh, const Tensor& tensor);

/// The tensor in main memory. Waits until the device has computed it. A meta tensor stays one.
Tensor download(const Tensor& tensor);

/// How many times the calling thread has called `download`. In training there is one for each step,
/// since the device has nothing to do while the host waits for it.
std::int64_t host_reads();

/// Returns when the device has done what this thread has given it, for those who measure it.
void wait_for_device(c10::Device device);

/// The values of single numbers, which are all read at once: the host waits for the device once.
/// Zeros in a dry run.
std::vector<double> read_numbers(const std::vector<Tensor>& numbers);

}  // namespace fourfold::tensor
