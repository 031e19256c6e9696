// Conversion between whole tensors and the parts of them that ranks have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/grid/layout.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/tensor.hpp"

namespace fourfold::tensor {

/// What to do with a size that does not divide. Padding is at the end of a rank's part. It counts
/// as rows or columns of zeros unless the caller cuts it off: a sum of losses includes it, too.
enum class Padding { kRefused, kZeros };

/// This rank's part, by `layout`, of a tensor that all ranks have, of any type. The result owns its
/// memory and has no autograd graph. Throws ConfigError for sizes that do not divide, unless
/// padding is asked for.
Tensor shard(const Mesh& mesh, const Tensor& whole, const grid::Layout& layout,
             Padding padding = Padding::kRefused);

/// The inverse: the whole tensor of that shape on every rank, without padding. Collective over the
/// axes that split it. For inspection: it is not differentiable.
Tensor unshard(const Mesh& mesh, const Tensor& part, const grid::Shape& shape,
               const grid::Layout& layout);

}  // namespace fourfold::tensor
