// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/functions.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/node.hpp"

namespace fourfold::tensor {

namespace {

using comm::Communicator;

/// The group over which a value moves.
struct Over {
  Communicator comm;
  std::int64_t where = 0;  // the dimension or the root, for moves that have one
};

// --- moves, without gradients

/// The tensor with dimension `dim` in front, as the collectives need it.
Tensor to_front(const Tensor& tensor, std::int64_t dim) {
  const MemoryScope scope(MemoryClass::kCommunication);
  return tensor.movedim(dim, 0).contiguous();
}

Tensor from_front(const Tensor& tensor, std::int64_t dim) {
  return tensor.movedim(0, dim).contiguous();
}

Tensor copy_of(const Tensor& tensor) {
  return tensor.clone(at::MemoryFormat::Contiguous);
}

Tensor gathered(const Over& over, const Tensor& part) {
  return from_front(all_gather(over.comm, to_front(part, over.where)).wait(), over.where);
}

Tensor scattered_sum(const Over& over, const Tensor& summand) {
  return from_front(reduce_scatter(over.comm, to_front(summand, over.where)).wait(), over.where);
}

Tensor sum(const Over& over, const Tensor& summand) {
  return all_reduce(over.comm, copy_of(summand)).wait();
}

Tensor unchanged(const Over& /*over*/, const Tensor& value) {
  return value;
}

/// This rank's part, as a copy: a view would keep the whole value alive.
Tensor own_part(const Over& over, const Tensor& value) {
  const std::int64_t size = value.size(over.where) / over.comm.size();
  return copy_of(value.narrow(over.where, over.comm.rank() * size, size));
}

Tensor from_root(const Over& over, const Tensor& value) {
  const bool here = over.comm.rank() == over.where;
  Tensor out = here ? copy_of(value) : at::empty_like(value, at::MemoryFormat::Contiguous);
  over.comm.broadcast(view(out), static_cast<int>(over.where)).wait();
  return out;
}

Tensor sum_at_root(const Over& over, const Tensor& summand) {
  const bool here = over.comm.rank() == over.where;
  const Tensor in = summand.contiguous();
  Tensor out = here ? at::empty_like(in) : at::zeros_like(in);
  over.comm.reduce(view(in), view(out), static_cast<int>(over.where)).wait();
  return out;
}

Tensor maximum(const Over& over, const Tensor& value) {
  return all_reduce(over.comm, copy_of(value), comm::ReduceOp::kMax).wait();
}

Tensor no_gradient(const Over& over, const Tensor& /*gradient*/) {
  throw InvariantError(concat("there is no gradient of the maximum over the group ",
                              over.comm.group(), ": detach its argument"));
}

// --- pairs

using Move = Tensor (*)(const Over&, const Tensor&);

/// Makes the move `there`. The two moves are each the backward pass of the other.
Tensor moved(const Over& over, const Tensor& value, Move there, Move back) {
  return node(
      {value}, [&](const variable_list& in) -> variable_list { return {there(over, in[0])}; },
      // The backward pass is a differentiable function, so that a graph of the gradient is built
      // where one is wanted.
      [over, there, back](const variable_list& gradients) -> variable_list {
        return {moved(over, gradients[0], back, there)};
      })[0];
}

// --- checks

void check_value(const Tensor& value) {
  FOURFOLD_CHECK(value.defined(), "no tensor to communicate");
  FOURFOLD_CHECK(value.is_floating_point(), "a tensor of ", c10::toString(value.scalar_type()),
                 " has no gradient");
  static_cast<void>(dtype_of(value.scalar_type()));
  FOURFOLD_CHECK(value.is_cpu() || value.is_cuda() || value.is_meta(),
                 "only tensors in main memory and on GPUs are communicated");
}

/// The dimension counted from the front; negative ones count from the back.
std::int64_t checked_dim(const Tensor& value, std::int64_t dim) {
  check_value(value);
  const std::int64_t dims = value.dim();
  FOURFOLD_CHECK(dim >= -dims && dim < dims, "a tensor of ", dims, " dimensions has no dimension ",
                 dim);
  return dim < 0 ? dim + dims : dim;
}

std::int64_t divided_dim(const Communicator& comm, const Tensor& value, std::int64_t dim) {
  const std::int64_t found = checked_dim(value, dim);
  FOURFOLD_CHECK(value.size(found) % comm.size() == 0, "the ", value.size(found),
                 " elements of dimension ", found, " cannot be split over ", comm.size(), " ranks");
  return found;
}

/// This is also checked in a group of one, where nothing is sent, so that a mistake is found before
/// there is a second rank.
int checked_root(const Communicator& comm, const Tensor& value, int root) {
  check_value(value);
  FOURFOLD_CHECK(root >= 0 && root < comm.size(), "a group of ", comm.size(), " has no member ",
                 root);
  return root;
}

/// The same, except that a group of one moves nothing.
template <Move kThere, Move kBack>
Tensor pass(const Communicator& comm, const Tensor& value, std::int64_t where = 0) {
  if (comm.size() == 1) return value;
  return moved({comm, where}, value, kThere, kBack);
}

}  // namespace

Tensor split_to_each(const Communicator& comm, const Tensor& part, std::int64_t dim) {
  return pass<gathered, scattered_sum>(comm, part, checked_dim(part, dim));
}

Tensor partial_to_split(const Communicator& comm, const Tensor& summand, std::int64_t dim) {
  return pass<scattered_sum, gathered>(comm, summand, divided_dim(comm, summand, dim));
}

Tensor partial_to_copies(const Communicator& comm, const Tensor& summand) {
  check_value(summand);
  return pass<sum, unchanged>(comm, summand);
}

Tensor copies_to_each(const Communicator& comm, const Tensor& value) {
  check_value(value);
  return pass<unchanged, sum>(comm, value);
}

Tensor copies_to_split(const Communicator& comm, const Tensor& value, std::int64_t dim) {
  return pass<own_part, gathered>(comm, value, divided_dim(comm, value, dim));
}

Tensor split_to_copies(const Communicator& comm, const Tensor& part, std::int64_t dim) {
  return pass<gathered, own_part>(comm, part, checked_dim(part, dim));
}

Tensor root_to_each(const Communicator& comm, const Tensor& value, int root) {
  return pass<from_root, sum_at_root>(comm, value, checked_root(comm, value, root));
}

Tensor partial_to_root(const Communicator& comm, const Tensor& summand, int root) {
  return pass<sum_at_root, from_root>(comm, summand, checked_root(comm, summand, root));
}

Tensor maximum_to_copies(const Communicator& comm, const Tensor& value) {
  check_value(value);
  return moved({comm}, value, maximum, no_gradient);
}

}  // namespace fourfold::tensor
