// Differentiable collectives, for user-defined layers. docs/gradients.md has the rule, a table and
// the reasons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

// The name of a function says how a value is distributed over the group before and after:
//   split    each rank has one part of the value along `dim`; the parts are of equal size
//   partial  each rank has a summand of the value, of the full size
//   copies   every rank has the value and does the same with it afterwards: that use counts once
//   each     every rank has the value and uses it in its own way: the uses add up
//   root     one rank has the value
// Gradients of split, copies and root are distributed like their values. The gradient of partial is
// distributed as each, and that of each as partial. So the backward pass of a_to_b turns the
// gradient of b into that of a, and is the other function of the pair. Gradients of gradients are
// right, too.
//
// All members of the group must call the same functions in the same order, with tensors of one type
// and shape. They must use all results or none: a rank that runs the backward pass of a function
// waits for the other ranks. Every function returns when the result is available. Arguments are not
// changed. Results are contiguous and own their memory, except for `copies_to_each`, whose result
// shares the memory of its argument. Along another dimension than the first a call costs two more
// copies. With a group of one the functions return the argument (the maximum returns a copy) and
// issue nothing. On a recording world meta tensors stand for real ones.
//
// All functions throw InvariantError for tensors that are not of a floating-point type that is
// communicated, for a dimension or root that does not exist, and for sizes that do not divide.

/// The parts of all ranks, one after the other: all_gather. Backward: reduce_scatter.
Tensor split_to_each(const comm::Communicator& comm, const Tensor& part, std::int64_t dim = 0);
/// This rank's part of the sum: reduce_scatter. Backward: all_gather.
Tensor partial_to_split(const comm::Communicator& comm, const Tensor& summand,
                        std::int64_t dim = 0);

/// The sum: all_reduce. Backward: nothing is sent.
Tensor partial_to_copies(const comm::Communicator& comm, const Tensor& summand);
/// The value itself; nothing is sent. Backward: all_reduce.
Tensor copies_to_each(const comm::Communicator& comm, const Tensor& value);

/// This rank's part of the value; nothing is sent. Backward: all_gather.
Tensor copies_to_split(const comm::Communicator& comm, const Tensor& value, std::int64_t dim = 0);
/// The parts of all ranks, one after the other: all_gather. Backward: this rank's part; nothing is
/// sent.
Tensor split_to_copies(const comm::Communicator& comm, const Tensor& part, std::int64_t dim = 0);

/// The root's value: broadcast. On other ranks `value` only gives the shape. Backward: reduce; the
/// gradient is zero on all ranks except the root.
Tensor root_to_each(const comm::Communicator& comm, const Tensor& value, int root);
/// The sum at the root, and zero on other ranks: reduce. Backward: broadcast; the gradients on
/// other ranks than the root are ignored.
Tensor partial_to_root(const comm::Communicator& comm, const Tensor& summand, int root);

/// The elementwise maximum over the members: all_reduce. Backward throws InvariantError, also in a
/// group of one: where members are equal there is no gradient, and afterwards it is not known which
/// member is largest. Detach the argument.
Tensor maximum_to_copies(const comm::Communicator& comm, const Tensor& value);

}  // namespace fourfold::tensor
