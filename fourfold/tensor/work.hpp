// Work that touches whole tensors and computes little, as steps of the recorded schedule. All of it
// is limited by memory. docs/writing-a-layer.md says when a layer reports what.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// The arithmetic of a loop over tensors that are all like `tensor`: it reads or writes so many of
/// them, and computes so many flops for each element.
schedule::Arithmetic loop_over(const Tensor& tensor, double tensors, double flops_each = 0);

/// The arithmetic of a loop that touches each of these tensors once. A tensor that is read and
/// written is named twice. It computes in the type of the first one, which has `flops_each` for
/// each element.
schedule::Arithmetic loop_over(at::TensorList tensors, double flops_each = 0);

// The following functions do the work and report it.

/// Copies and converts.
void copy(const Mesh& mesh, const char* name, const Tensor& to, const Tensor& from);
/// The tensor in another type; itself if it has that type.
Tensor cast(const Mesh& mesh, const char* name, const Tensor& tensor, at::ScalarType type);
/// The same before and after a kernel that computes bf16 in f32: reported as `widened`, since a
/// device that multiplies bf16 has no such work.
Tensor cast_for_kernel(const Mesh& mesh, const char* name, const Tensor& tensor,
                       at::ScalarType type);
/// The tensor as one piece of memory; itself if it is one.
Tensor contiguous(const Mesh& mesh, const char* name, const Tensor& tensor);
void fill_zero(const Mesh& mesh, const char* name, const Tensor& tensor);
/// Adds `part`, which may have a narrower type.
void add_to(const Mesh& mesh, const char* name, const Tensor& sum, const Tensor& part);

}  // namespace fourfold::tensor
