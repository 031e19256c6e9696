// Rotary position embedding: pairs of columns of a head are turned by an angle that grows with the
// position. The pairs are those of Hugging Face's "rotate_half": columns i and i + head_size / 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "fourfold/kernels/heads.hpp"
#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// How Llama 3 stretches slow rotations to contexts longer than those of its pretraining ("llama3"
/// in Hugging Face's configurations, with the same names).
struct RotaryScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
};

/// context × head_size. Row p has the cosines of the angles of position p, one for each pair, and
/// then the sines. Pair i turns by theta^(-2i / head_size) from one position to the next. With
/// `scaling`, a rotation whose wavelength is longer than original / low_freq_factor is slower by
/// `factor`; one that is shorter than original / high_freq_factor is unchanged; in between, the
/// speed is interpolated. The angles are computed in double. `options` give the type, float or
/// double.
Tensor rotary_table(std::int64_t context, std::int64_t head_size, double theta,
                    const std::optional<RotaryScaling>& scaling, const at::TensorOptions& options);

/// Which columns of a matrix are rotated, and where its rows are in their samples: row r has the
/// position first_position + r % positions.
struct RotaryHeads {
  HeadColumns columns{};
  std::int64_t heads = 0;
  std::int64_t head_size = 0;       ///< even
  std::int64_t positions = 0;       ///< rows of each sample
  std::int64_t first_position = 0;  ///< more than 0 when a text is continued
};

/// The gradient is turned back.
enum class Rotation { kForward, kBackward };

/// Rotates heads in place. The elements of a row lie one after the other. The type of the table is
/// float, or double if the matrix is of double.
void rotate_heads(const Tensor& matrix, const RotaryHeads& which, const Tensor& table,
                  Rotation rotation);

}  // namespace fourfold::kernels
