// SPDX-License-Identifier: Apache-2.0
#include "matrix/vector.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/node.hpp"
#include "fourfold/tensor/work.hpp"

namespace matrix {

namespace comm = fourfold::comm;
namespace kernels = fourfold::kernels;
using fourfold::concat;
using fourfold::InvariantError;
using tensor::Pending;
using tensor::Purpose;
using tensor::variable_list;

namespace {

struct Call {
  const Mesh* mesh;
  Axis axis;
  Elementwise op;

  Pending gather(const Tensor& local) const {
    return tensor::all_gather(comm(Purpose::kWeights), local.contiguous());
  }
  /// Starts the sum over ranks of the sums of columns.
  Pending reduce(const Tensor& sums) const {
    return tensor::reduce_scatter(comm(Purpose::kGradients), sums);
  }
  /// Records one operation for each element of `matrix`, which is read and perhaps written.
  void computed(const char* name, const Tensor& matrix, int accesses) const {
    mesh->compute(name, tensor::loop_over(matrix, accesses, 1));
  }

 private:
  const comm::Communicator& comm(Purpose purpose) const {
    return mesh->join({across(axis), Axis::kZ}, purpose);
  }
};

Tensor computed_forward(const Call& call, const Tensor& matrix, const Tensor& vector) {
  const bool adds = call.op == Elementwise::kAdd;
  const Tensor whole = call.gather(vector).wait();
  const Tensor result = adds ? at::add(matrix, whole) : at::mul(matrix, whole);
  call.computed(adds ? "add vector" : "multiply vector", matrix, 2);
  return result;
}

/// Which gradients are needed, and what of the operands they need: in a product each needs the
/// other one, and a sum needs neither.
struct Wanted {
  Wanted(Elementwise op, const Tensor& matrix, const Tensor& vector)
      : for_matrix(matrix.requires_grad()), for_vector(vector.requires_grad()) {
    if (op == Elementwise::kAdd) return;
    if (for_vector) kept_matrix = tensor::Saved(matrix);
    if (for_matrix) kept_vector = tensor::Saved(vector);
  }

  bool for_matrix;
  bool for_vector;
  tensor::Saved kept_matrix;
  tensor::Saved kept_vector;
};

variable_list computed_backward(const Call& call, const Wanted& wanted, const Tensor& out) {
  if (at::GradMode::is_enabled()) {
    throw InvariantError("gradients of add and multiply have no graph: no create_graph here");
  }
  const bool adds = call.op == Elementwise::kAdd;
  const Tensor gradient = out.contiguous();
  // The vector is gathered while columns are summed, and their sum is in flight while the matrix's
  // gradient is computed.
  Pending vector = wanted.for_matrix && !adds ? call.gather(wanted.kept_vector.get()) : Pending();
  Pending sums;
  if (wanted.for_vector) {
    sums = call.reduce(
        kernels::column_sums(adds ? gradient : at::mul(gradient, wanted.kept_matrix.get())));
    call.computed("vector dB", gradient, adds ? 1 : 2);
  }
  Tensor of_matrix;
  if (wanted.for_matrix && adds) of_matrix = gradient;
  if (wanted.for_matrix && !adds) {
    of_matrix = at::mul(gradient, vector.wait());
    call.computed("vector dA", gradient, 2);
  }
  const Tensor of_vector = sums.wait();
  return {of_matrix, wanted.for_vector ? of_vector.to(gradient.scalar_type()) : Tensor()};
}

}  // namespace

Tensor elementwise_part(Elementwise op, Axis axis, const Shard& matrix, const Shard& vector) {
  const char* name = op == Elementwise::kAdd ? "add" : "multiply";
  check_together(name, matrix, vector);
  if (matrix.columns() != vector.columns()) {
    throw InvariantError(concat(name, " of ", to_string(matrix.shape()), " and ",
                                to_string(vector.shape()),
                                ": the vector must have as many elements as the matrix columns"));
  }
  const Call call{&matrix.mesh(), axis, op};
  const auto forward = [&](const variable_list& in) {
    return variable_list{computed_forward(call, in[0], in[1])};
  };
  const auto backward =
      [call, wanted = Wanted(op, matrix.local(), vector.local())](const variable_list& out) {
        return computed_backward(call, wanted, out[0]);
      };
  return tensor::node({matrix.local(), vector.local()}, forward, backward)[0];
}

}  // namespace matrix
