// What the closed forms need to know of a transformer: its products, its vectors and its heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/model/transformer.hpp"

namespace fourfold::test {

struct Anatomy {
  /// The product of a linear layer: rows × in with in × out.
  struct Product {
    std::int64_t in = 0;
    std::int64_t out = 0;
  };
  /// Which columns a vector belongs to: those of the hidden state, those between the two products
  /// of the network, or those that go into attention.
  enum class Columns { kHidden, kWide, kAttention };
  struct Vector {
    std::int64_t size = 0;
    Columns columns = Columns::kHidden;
  };

  model::Frame frame;
  std::int64_t kv_heads = 0;
  std::vector<Product> products;     ///< QKV, projection, up, down
  std::vector<Vector> vectors;       ///< of a block, in the order of use
  std::vector<Vector> last_vectors;  ///< of the norm after the blocks
  bool layer_norm = true;            ///< else RMS norm
  bool positions = true;             ///< a table of them

  /// Whether the heads can be split over so many ranks.
  bool divides(std::int64_t ranks) const;
  /// The ranks that share a head of keys and values when the heads are split over so many ranks.
  std::int64_t sharers(std::int64_t ranks) const;
  /// Elements of keys and values for so many rows that the ranks that share a head gather.
  std::int64_t shared_elements(std::int64_t rows) const;
};

/// Of a GPT or a Llama.
Anatomy anatomy_of(const model::Model& model);

}  // namespace fourfold::test
