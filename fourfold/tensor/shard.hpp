// Whole tensors and the parts of them that ranks have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/grid/layout.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/tensor.hpp"

namespace fourfold::tensor {

/// What becomes of a size that does not divide. Padding is at the end of a rank's part, and counts
/// as rows or columns of zeros wherever nobody cuts it off: a sum of losses has them, too.
enum class Padding { kRefused, kZeros };

/// This rank's part, by `layout`, of a tensor that all ranks have. Memory of its own, of any type,
/// with no graph behind it. Throws ConfigError for sizes that do not divide, unless they are to be
/// padded.
Tensor shard(const Mesh& mesh, const Tensor& whole, const grid::Layout& layout,
             Padding padding = Padding::kRefused);

/// The inverse: the whole tensor of that shape on every rank, without padding. Collective over the
/// axes that split it. For looking at: no gradient goes through.
Tensor unshard(const Mesh& mesh, const Tensor& part, const grid::Shape& shape,
               const grid::Layout& layout);

}  // namespace fourfold::tensor
