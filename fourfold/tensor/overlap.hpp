// Which communication is hidden behind compute, and how much memory that may take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::tensor {

/// Results are the same with every switch on or off (docs/overlap.md).
struct Overlap {
  /// The sum of dI behind the product for dW; where there is none, that of dW behind dI's product.
  bool input_gradients = true;
  /// Sums of weight gradients behind the rest of the backward pass.
  bool weight_gradients = true;
  /// Weights are brought together ahead of their use.
  bool weights = true;
  /// Those of the forward pass are kept for the backward pass.
  bool keep_weights = true;
  /// Along data, gradients are summed behind the backward pass and new weights brought together
  /// behind the next forward pass.
  bool data = true;
  /// A rank's samples go in two halves, and each hides the other's communication; inputs that the
  /// backward pass brings together again start one layer ahead.
  bool halves = true;
  /// Of SUMMA: the next panels behind the product of the current ones, and the sum of the last one
  /// behind the next product.
  bool panels = true;

  /// Bytes of weights ahead of their use at most, and of gradients under way; one of each is always
  /// allowed.
  std::int64_t window = std::int64_t{64} << 20;
  /// Bytes of gathered weights that are kept from forward to backward at most.
  std::int64_t keep = std::int64_t{256} << 20;
  /// Along data gradients and weights travel in pieces of about so many bytes.
  std::int64_t segment = std::int64_t{16} << 20;

  /// Everything off: each operation is waited for before the next product.
  static Overlap none() {
    Overlap off;
    off.input_gradients = off.weight_gradients = off.weights = false;
    off.keep_weights = off.data = off.halves = off.panels = false;
    return off;
  }

  bool operator==(const Overlap&) const = default;
};

}  // namespace fourfold::tensor
