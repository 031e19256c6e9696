// Which communication overlaps with compute, and how much memory that may take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::tensor {

/// Results are the same with every switch on or off (docs/overlap.md).
struct Overlap {
  /// The sum of dI overlaps with the product for dW. Where there is no sum of dI, the sum of dW
  /// overlaps with the product for dI.
  bool input_gradients = true;
  /// Sums of weight gradients overlap with the rest of the backward pass.
  bool weight_gradients = true;
  /// Weights are gathered ahead of their use.
  bool weights = true;
  /// Weights that the forward pass gathered are kept for the backward pass.
  bool keep_weights = true;
  /// Along data, sums of gradients overlap with the backward pass, and gathers of new weights
  /// overlap with the next forward pass.
  bool data = true;
  /// The samples of a rank are processed in two halves, and the communication of each half overlaps
  /// with the compute of the other. Inputs that the backward pass gathers again start one layer
  /// ahead.
  bool halves = true;
  /// In SUMMA, the next panels are sent during the product of the current ones, and the sum of the
  /// last panel overlaps with the next product.
  bool panels = true;

  /// The most bytes of weights gathered ahead of their use, and of gradients under way. One of each
  /// is always allowed.
  std::int64_t window = std::int64_t{64} << 20;
  /// The most bytes of gathered weights that are kept from the forward to the backward pass.
  std::int64_t keep = std::int64_t{256} << 20;
  /// Along data, gradients and weights are communicated in pieces of about this many bytes.
  std::int64_t segment = std::int64_t{16} << 20;

  /// Switches everything off: each operation is waited for before the next product.
  static Overlap none() {
    Overlap off;
    off.input_gradients = off.weight_gradients = off.weights = false;
    off.keep_weights = off.data = off.halves = off.panels = false;
    return off;
  }

  bool operator==(const Overlap&) const = default;
};

}  // namespace fourfold::tensor
