// Collectives that gradients flow through, for layers of one's own. Rule, table and reasons:
// docs/gradients.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

// A name says how a value lies over the group before and after:
//   split    each rank has one part of it along `dim`; the parts are of equal size
//   partial  each rank has a summand of it, of the full size
//   copies   every rank has it, and goes on to do the same with it: what follows counts once
//   each     every rank has it, and makes a use of its own of it: the uses add up
//   root     one rank has it
// Gradients of split, copies and root lie as their values do. The gradient of partial is each, that
// of each is partial. So the backward of a_to_b leads from the gradient of b to that of a, and is
// the other function of the pair; gradients of gradients are right, too.
//
// All members of the group call the same functions in the same order, with tensors of one type and
// shape, and must use all results or none: a rank that runs backward through one waits for the
// rest. Every function returns when the result is there. Arguments are not changed. Results are
// contiguous and of their own memory, but for `copies_to_each`, whose result is its argument's
// memory; along another dimension than the first they cost two more copies. With a group of one
// they return the argument (the maximum: a copy), and issue nothing. On a recording world meta
// tensors stand for real ones.
//
// All throw InvariantError for tensors that are not of a floating-point type that is communicated,
// for a dimension or root that is not there, and for sizes that do not divide.

/// The parts one after the other: all_gather. Backward: reduce_scatter.
Tensor split_to_each(const comm::Communicator& comm, const Tensor& part, std::int64_t dim = 0);
/// This rank's part of the sum: reduce_scatter. Backward: all_gather.
Tensor partial_to_split(const comm::Communicator& comm, const Tensor& summand,
                        std::int64_t dim = 0);

/// The sum: all_reduce. Backward: nothing.
Tensor partial_to_copies(const comm::Communicator& comm, const Tensor& summand);
/// Nothing. Backward: all_reduce.
Tensor copies_to_each(const comm::Communicator& comm, const Tensor& value);

/// This rank's part; nothing is sent. Backward: all_gather.
Tensor copies_to_split(const comm::Communicator& comm, const Tensor& value, std::int64_t dim = 0);
/// The parts one after the other: all_gather. Backward: this rank's part; nothing is sent.
Tensor split_to_copies(const comm::Communicator& comm, const Tensor& part, std::int64_t dim = 0);

/// The root's value: broadcast. Elsewhere `value` only gives the shape. Backward: reduce; the
/// gradient is zero elsewhere than at the root.
Tensor root_to_each(const comm::Communicator& comm, const Tensor& value, int root);
/// The sum at the root, and zero elsewhere: reduce. Backward: broadcast; what other ranks than the
/// root have as gradient is not looked at.
Tensor partial_to_root(const comm::Communicator& comm, const Tensor& summand, int root);

/// The largest of the members' elements, place by place: all_reduce. Backward throws
/// InvariantError, also in a group of one: where members are equal there is no gradient, and which
/// member is largest is not known afterwards. Detach the argument.
Tensor maximum_to_copies(const comm::Communicator& comm, const Tensor& value);

}  // namespace fourfold::tensor
