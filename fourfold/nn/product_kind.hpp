// The kinds of products, and layers made by the kind of their product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "fourfold/nn/product_layer.hpp"
#include "fourfold/nn/vocabulary_table.hpp"

namespace fourfold::nn {

/// How the matrices of linear layers and tables are multiplied.
enum class ProductKind {
  k4d,     ///< weights are gathered and partial results summed, on any grid
  kSumma,  ///< panels are sent along the rows and columns of a square of ranks
};

/// Why such a layer cannot be split over a grid; empty if it can.
std::string linear_misfit(ProductKind product, const LinearSpec& spec, const grid::Sizes& sizes);

/// A linear layer whose product is of that kind.
std::unique_ptr<ProductLayer> make_linear(ProductKind product, const Mesh& mesh,
                                          const LinearSpec& spec, const Precision& precision,
                                          std::uint64_t seed);
/// A table of tokens whose products are of that kind.
std::unique_ptr<VocabularyTable> make_table(ProductKind product, const Mesh& mesh,
                                            const TableSpec& spec, const Precision& precision,
                                            std::uint64_t seed);

}  // namespace fourfold::nn
