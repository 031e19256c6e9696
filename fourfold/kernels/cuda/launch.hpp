// Runs code of both/ on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stream of CUDA, without CUDA's headers.
struct CUstream_st;

namespace fourfold::kernels::cuda {

using Stream = CUstream_st*;

/// Runs body(team, r) for r in [0, body.rows), each by the threads of a block, and returns at once.
/// It is defined in .cu files, for the bodies that are listed there.
template <class Body>
void run_rows(const Body& body, Stream stream);

/// Runs body(i) for i in [0, body.count()), each by a thread.
template <class Body>
void run_elements(const Body& body, Stream stream);

}  // namespace fourfold::kernels::cuda
