// SPDX-License-Identifier: Apache-2.0
#include "matrix/vector.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/work.hpp"

namespace matrix {

namespace comm = fourfold::comm;
namespace kernels = fourfold::kernels;
using fourfold::concat;
using fourfold::InvariantError;
using tensor::Pending;
using tensor::Purpose;
using tensor::variable_list;
using torch::autograd::AutogradContext;

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

void save(AutogradContext* context, const Call& call) {
  context->saved_data["mesh"] = reinterpret_cast<std::int64_t>(call.mesh);
  context->saved_data["axis"] = static_cast<std::int64_t>(call.axis);
  context->saved_data["op"] = static_cast<std::int64_t>(call.op);
}

Call saved(AutogradContext* context) {
  return {reinterpret_cast<const Mesh*>(context->saved_data["mesh"].toInt()),
          static_cast<Axis>(context->saved_data["axis"].toInt()),
          static_cast<Elementwise>(context->saved_data["op"].toInt())};
}

class ElementwiseFunction : public torch::autograd::Function<ElementwiseFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& matrix, const Tensor& vector,
                        const Call& call) {
    save(context, call);
    const bool adds = call.op == Elementwise::kAdd;
    // Each operand is needed for the gradient of the other. A sum needs neither.
    context->save_for_backward({!adds && vector.requires_grad() ? matrix : Tensor(),
                                !adds && matrix.requires_grad() ? vector : Tensor()});
    const Tensor whole = call.gather(vector).wait();
    const Tensor result = adds ? at::add(matrix, whole) : at::mul(matrix, whole);
    call.computed(adds ? "add vector" : "multiply vector", matrix, 2);
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw InvariantError("gradients of add and multiply have no graph: no create_graph here");
    }
    const Call call = saved(context);
    const variable_list kept = context->get_saved_variables();
    const bool adds = call.op == Elementwise::kAdd;
    const bool for_matrix = context->needs_input_grad(0);
    const bool for_vector = context->needs_input_grad(1);
    const Tensor gradient = gradients[0].contiguous();
    // The vector is gathered while columns are summed, and their sum is in flight while the
    // matrix's gradient is computed.
    Pending vector = for_matrix && !adds ? call.gather(kept[1]) : Pending();
    Pending sums;
    if (for_vector) {
      sums = call.reduce(kernels::column_sums(adds ? gradient : at::mul(gradient, kept[0])));
      call.computed("vector dB", gradient, adds ? 1 : 2);
    }
    Tensor for_matrix_gradient;
    if (for_matrix && adds) for_matrix_gradient = gradient;
    if (for_matrix && !adds) {
      for_matrix_gradient = at::mul(gradient, vector.wait());
      call.computed("vector dA", gradient, 2);
    }
    const Tensor vector_gradient = sums.wait();
    return {for_matrix_gradient, for_vector ? vector_gradient.to(gradient.scalar_type()) : Tensor(),
            Tensor()};
  }
};

}  // namespace

Tensor elementwise_part(Elementwise op, Axis axis, const Shard& matrix, const Shard& vector) {
  const char* name = op == Elementwise::kAdd ? "add" : "multiply";
  check_together(name, matrix, vector);
  if (matrix.columns() != vector.columns()) {
    throw InvariantError(concat(name, " of ", to_string(matrix.shape()), " and ",
                                to_string(vector.shape()),
                                ": the vector must have as many elements as the matrix columns"));
  }
  return ElementwiseFunction::apply(matrix.local(), vector.local(), Call{&matrix.mesh(), axis, op});
}

}  // namespace matrix
