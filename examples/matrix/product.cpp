// SPDX-License-Identifier: Apache-2.0
#include "matrix/product.hpp"

#include <array>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/node.hpp"
#include "fourfold/tensor/product.hpp"

namespace matrix {

using fourfold::concat;
using fourfold::InvariantError;
using tensor::Pending;
using tensor::Purpose;
using tensor::variable_list;

namespace {

constexpr std::size_t index_of(Part part) {
  return static_cast<std::size_t>(part);
}

/// The operands A and B of the product that computes a part, and the names of that product and its
/// gradients.
struct Operands {
  Part a;
  Part b;
  const char* name;
  const char* name_of_da;
  const char* name_of_db;
};

const Operands& operands_of(Part result) {
  static constexpr std::array<Operands, 3> kOperands = {{
      {Part::kOut, Part::kWeight, "ABt", "ABt dA", "ABt dB"},
      {Part::kIn, Part::kOut, "AtB", "AtB dA", "AtB dB"},
      {Part::kIn, Part::kWeight, "AB", "AB dA", "AB dB"},
  }};
  return kOperands[index_of(result)];
}

/// One product: what the forward and the backward pass must know about it.
struct Product {
  const Mesh* mesh;
  Axis direction;
  Part result;

  /// The axis along which a part is whole in the product.
  Axis axis_of(Part part) const {
    switch (part) {
      case Part::kIn:
        return across(direction);
      case Part::kWeight:
        return Axis::kZ;
      case Part::kOut:
        return direction;
    }
    throw InvariantError("no such part of a product");
  }

  Pending gather(Part part, const Tensor& local) const {
    const Purpose purpose = part == Part::kWeight ? Purpose::kWeights : Purpose::kActivations;
    return tensor::all_gather(mesh->join(axis_of(part), purpose), local.contiguous());
  }

  Pending reduce(Part part, const Tensor& partial) const {
    const Purpose purpose = part == Part::kWeight ? Purpose::kGradients : Purpose::kActivations;
    return tensor::reduce_scatter(mesh->join(axis_of(part), purpose), partial);
  }

  /// Computes this rank's summand of a part from the other two parts, and starts its sum.
  Pending make(Part part, const char* name, const std::array<Tensor, 3>& whole) const {
    const Tensor& in = whole[index_of(Part::kIn)];
    const Tensor& weight = whole[index_of(Part::kWeight)];
    const Tensor& out = whole[index_of(Part::kOut)];
    const Tensor left = part == Part::kOut ? in : part == Part::kIn ? out : in.t();
    const Tensor right = part == Part::kOut ? weight : part == Part::kIn ? weight.t() : out;
    Tensor partial = at::empty({left.size(0), right.size(1)}, left.options());
    tensor::product(*mesh, name, partial, left, right);
    return reduce(part, partial);
  }
};

/// Which gradients of the operands are needed, and the operands: each is needed for the gradient of
/// the other.
struct Wanted {
  Wanted(const Tensor& left, const Tensor& right)
      : da(left.requires_grad()), db(right.requires_grad()) {
    if (db) a = tensor::Saved(left);
    if (da) b = tensor::Saved(right);
  }

  bool da;
  bool db;
  tensor::Saved a;
  tensor::Saved b;
};

Pending start_result(const Product& product, const Tensor& a, const Tensor& b) {
  const Operands& operands = operands_of(product.result);
  Pending gathered_a = product.gather(operands.a, a);
  Pending gathered_b = product.gather(operands.b, b);
  std::array<Tensor, 3> whole;
  whole[index_of(operands.a)] = gathered_a.wait();
  whole[index_of(operands.b)] = gathered_b.wait();
  return product.make(product.result, operands.name, whole);
}

std::pair<Pending, Pending> start_gradients(const Product& product, const Wanted& wanted,
                                            const Tensor& gradient) {
  const Operands& operands = operands_of(product.result);
  Pending gathered = product.gather(product.result, gradient);
  Pending a = wanted.db ? product.gather(operands.a, wanted.a.get()) : Pending();
  Pending b = wanted.da ? product.gather(operands.b, wanted.b.get()) : Pending();
  const Tensor whole_gradient = gathered.wait();
  const auto start = [&](Part part, const char* name, Part from, Pending& operand) {
    std::array<Tensor, 3> whole;
    whole[index_of(product.result)] = whole_gradient;
    whole[index_of(from)] = operand.wait();
    return product.make(part, name, whole);
  };
  const auto start_da = [&] { return start(operands.a, operands.name_of_da, operands.b, b); };
  const auto start_db = [&] { return start(operands.b, operands.name_of_db, operands.a, a); };
  std::pair<Pending, Pending> result;
  // The second product overlaps with the sum of the first product's result, so the first should
  // be one that needs a sum.
  const bool a_first = product.mesh->size(product.axis_of(operands.a)) > 1;
  if (wanted.da && a_first) result.first = start_da();
  if (wanted.db) result.second = start_db();
  if (wanted.da && !a_first) result.first = start_da();
  return result;
}

// --- checks

Kind kind_of(Part part) {
  return part == Part::kWeight ? Kind::kWeight : Kind::kActivations;
}

/// The axis in the type of a part.
Axis type_axis_of(Part part, Axis direction) {
  return part == Part::kOut ? across(direction) : direction;
}

/// The shape of the result, and whether the sizes of the summed dimension agree.
struct Fit {
  grid::Shape shape;
  bool fits;
  const char* rule;
};

Fit fit_of(Part result, const Shard& a, const Shard& b) {
  switch (result) {
    case Part::kOut:
      return {{a.rows(), b.columns()}, a.columns() == b.rows(), "columns as B has rows"};
    case Part::kIn:
      return {{a.rows(), b.rows()}, a.columns() == b.columns(), "columns as B"};
    case Part::kWeight:
      return {{a.columns(), b.columns()}, a.rows() == b.rows(), "rows as B"};
  }
  throw InvariantError("no such part of a product");
}

}  // namespace

Tensor product_part(Part result, Axis direction, const Shard& a, const Shard& b) {
  const char* name = operands_of(result).name;
  check_together(name, a, b);
  const Fit fit = fit_of(result, a, b);
  if (!fit.fits) {
    throw InvariantError(concat(name, " of ", to_string(a.shape()), " and ", to_string(b.shape()),
                                ": A must have as many ", fit.rule));
  }
  // This is checked before anything is communicated.
  check_divides(a.mesh().grid(), kind_of(result), type_axis_of(result, direction), fit.shape);
  const Product product{&a.mesh(), direction, result};
  const auto forward = [&](const variable_list& in) {
    return variable_list{start_result(product, in[0], in[1]).wait()};
  };
  const auto backward = [product, wanted = Wanted(a.local(), b.local())](const variable_list& out) {
    if (at::GradMode::is_enabled()) {
      throw InvariantError("gradients of matrix products have no graph: no create_graph here");
    }
    auto [da, db] = start_gradients(product, wanted, out[0]);
    return variable_list{da.wait(), db.wait()};
  };
  return tensor::node({a.local(), b.local()}, forward, backward)[0];
}

}  // namespace matrix
