// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/gathering.hpp"

#include <algorithm>

#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Purpose;

namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Gathering::Gathering(const Shard& shard)
    : shard_(&shard),
      rows_(grid::shard_size(shard.spec().shape[0], shard.spec().kept, shard.mesh().grid())) {
  shard.mesh().join(shard.spec().gathered, Purpose::kWeights);
}

const comm::Communicator& Gathering::comm() const {
  return shard_->mesh().comm(shard_->spec().gathered, Purpose::kWeights);
}

std::int64_t Gathering::bytes() const {
  return shard_->size() * static_cast<std::int64_t>(c10::elementSize(shard_->precision().compute)) *
         shard_->mesh().size(shard_->spec().gathered);
}

tensor::Gathered Gathering::start() const {
  shard_->wait_for_values();
  const Tensor own = shard_->value().detach();
  tensor::Gathered gathered;
  if (is_whole()) {
    gathered.tensors = {own};
    return gathered;
  }
  const MemoryScope scope(MemoryClass::kCommunication);
  std::vector<std::int64_t> sizes = own.sizes().vec();
  sizes[0] *= comm().size();
  gathered.tensors = {at::empty(sizes, own.options())};
  gathered.sources = {own};
  gathered.works.push_back(comm().all_gather(tensor::view(own), tensor::view(gathered.tensors[0])));
  return gathered;
}

std::int64_t Gathering::outer_blocks() const {
  const grid::Axes& axes = shard_->spec().gathered;
  return axes.size() == 2 ? shard_->mesh().size(axes[0]) : 1;
}

std::int64_t Gathering::padded_rows() const {
  return shard_->shape()[0] * shard_->mesh().size(shard_->spec().gathered);
}

Tensor Gathering::trim(const Tensor& gathered) const {
  if (gathered.size(0) == rows_) return gathered;
  const std::int64_t outer = outer_blocks();
  if (outer == 1) return gathered.narrow(0, 0, rows_);
  // Each outer block has its own padding at its end.
  std::vector<std::int64_t> sizes = gathered.sizes().vec();
  sizes[0] = gathered.size(0) / outer;
  sizes.insert(sizes.begin(), outer);
  const std::int64_t filled = divide_up(rows_, outer);
  const Tensor blocks = gathered.view(sizes).narrow(1, 0, filled);
  return tensor::contiguous(shard_->mesh(), "trim", blocks).flatten(0, 1).narrow(0, 0, rows_);
}

Tensor Gathering::pad(const Tensor& rows) const {
  const std::int64_t padded = padded_rows();
  if (padded == rows_) return rows;
  const MemoryScope scope(MemoryClass::kCommunication);
  std::vector<std::int64_t> sizes = rows.sizes().vec();
  sizes[0] = padded;
  Tensor result = at::zeros(sizes, rows.options());
  const std::int64_t outer = outer_blocks();
  const std::int64_t filled = divide_up(rows_, outer);
  const std::int64_t step = padded / outer;
  for (std::int64_t block = 0; block < outer; ++block) {
    const std::int64_t count = std::min(filled, rows_ - block * filled);
    if (count <= 0) break;
    result.narrow(0, block * step, count).copy_(rows.narrow(0, block * filled, count));
  }
  shard_->mesh().compute("pad", tensor::loop_over({result, rows, rows}));
  return result;
}

}  // namespace fourfold::nn
