// Makes layers by the algorithm of their products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "fourfold/nn/product_layer.hpp"
#include "fourfold/nn/vocabulary_table.hpp"

namespace fourfold::nn {

enum class Algorithm {
  k4d,     ///< weights are gathered and partial results summed, on any grid
  kSumma,  ///< panels are sent along the rows and columns of a square of ranks
};

/// Why such a layer cannot be split over a grid; empty if it can.
std::string linear_misfit(Algorithm algorithm, const LinearSpec& spec, const grid::Sizes& sizes);

std::unique_ptr<ProductLayer> make_linear(Algorithm algorithm, const Mesh& mesh,
                                          const LinearSpec& spec, const Precision& precision,
                                          std::uint64_t seed);
std::unique_ptr<VocabularyTable> make_table(Algorithm algorithm, const Mesh& mesh,
                                            const TableSpec& spec, const Precision& precision,
                                            std::uint64_t seed);

}  // namespace fourfold::nn
