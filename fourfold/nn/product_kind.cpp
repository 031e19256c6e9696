// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/product_kind.hpp"

#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/summa.hpp"
#include "fourfold/nn/summa_table.hpp"
#include "fourfold/nn/token_table.hpp"

namespace fourfold::nn {

std::string linear_misfit(ProductKind product, const LinearSpec& spec, const grid::Sizes& sizes) {
  return product == ProductKind::kSumma ? SummaLinear::misfit(spec, sizes)
                                        : Linear::misfit(spec, sizes);
}

std::unique_ptr<ProductLayer> make_linear(ProductKind product, const Mesh& mesh,
                                          const LinearSpec& spec, const Precision& precision,
                                          std::uint64_t seed) {
  if (product == ProductKind::kSumma) {
    return std::make_unique<SummaLinear>(mesh, spec, precision, seed);
  }
  return std::make_unique<Linear>(mesh, spec, precision, seed);
}

std::unique_ptr<VocabularyTable> make_table(ProductKind product, const Mesh& mesh,
                                            const TableSpec& spec, const Precision& precision,
                                            std::uint64_t seed) {
  if (product == ProductKind::kSumma) {
    return std::make_unique<SummaTable>(mesh, spec, precision, seed);
  }
  return std::make_unique<TokenTable>(mesh, spec, precision, seed);
}

}  // namespace fourfold::nn
