// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/shard.hpp"

#include <algorithm>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::nn {

using tensor::MemoryClass;
using tensor::MemoryScope;

namespace {

ParameterSpec checked(const Mesh& mesh, ParameterSpec spec) {
  spec.check(mesh);
  return spec;
}

}  // namespace

Tensor real_part(const Tensor& shard, const grid::Block& block) {
  Tensor part = shard.detach();
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    part = part.narrow(static_cast<std::int64_t>(d), 0, block.ranges[d].size());
  }
  return part;
}

Shard::Shard(const Mesh& mesh, ParameterSpec spec, const Precision& precision, std::uint64_t seed)
    : mesh_(&mesh),
      spec_(checked(mesh, std::move(spec))),
      precision_(precision),
      seed_(seed),
      layout_(spec_.layout()),
      shape_(layout_.shard_shape(spec_.shape, mesh.grid())) {
  FOURFOLD_CHECK(precision.master == kernels::statistics_type(precision.compute), spec_.name,
                 ": parameters of bf16 are kept in float, others in their own type");
  for (const std::int64_t extent : shape_) size_ *= extent;
}

const Tensor& Shard::value() const {
  FOURFOLD_CHECK(!arriving(), spec_.name, ": new values are arriving; call wait_for_values first");
  return leaf();
}

const Tensor& Shard::leaf() const {
  if (!value_.defined()) {
    allocate();
    initialise();
  }
  return value_;
}

void Shard::allocate() const {
  const MemoryScope scope(MemoryClass::kParameters);
  value_ = at::empty(shape_, at::TensorOptions(precision_.compute).device(mesh_->device()))
               .set_requires_grad(true);
}

std::vector<Shard::Rows> Shard::pieces() const {
  constexpr std::int64_t kElements = 1 << 18;  // 1 MiB of float beside the model
  const grid::Block all = layout_.block(spec_.shape, mesh_->grid(), mesh_->coord());
  const std::int64_t rows = shape_[0];
  const std::int64_t step =
      std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, columns()));
  std::vector<Rows> list;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    Rows piece{{begin, std::min(begin + step, rows)}, all};
    grid::Range& here = piece.block.ranges[0];
    const std::int64_t first = here.begin;
    here.begin = std::min(here.end, first + piece.range.begin);
    here.end = std::min(here.end, first + piece.range.end);
    list.push_back(std::move(piece));
  }
  return list;
}

void Shard::write(const std::function<void(Tensor&, const Rows&)>& write_rows) const {
  const Tensor all = value_.detach();
  // Values are made by the host, in their place if it is the host's.
  const bool in_place = precision_.compute == precision_.master && mesh().device() == mesh().host();
  const grid::Range kept = {master_first_,
                            master_first_ + (master_.defined() ? master_.numel() : 0)};
  for (const Rows& piece : pieces()) {
    const Tensor place = all.narrow(0, piece.range.begin, piece.range.size());
    Tensor values =
        in_place
            ? place
            : at::empty(place.sizes(), at::TensorOptions(precision_.master).device(mesh().host()));
    if (mesh().dry()) return;  // nothing is written, and no other piece takes more memory
    values.zero_();
    write_rows(values, piece);
    if (in_place) continue;
    place.copy_(values);
    const grid::Range elements = {piece.range.begin * columns(), piece.range.end * columns()};
    const grid::Range here = grid::intersect(elements, kept);
    if (here.empty()) continue;
    master_.narrow(0, here.begin - kept.begin, here.size())
        .copy_(values.flatten().narrow(0, here.begin - elements.begin, here.size()));
  }
}

void Shard::initialise() const {
  const kernels::Key key = kernels::key_of(seed_, spec_.name);
  write([&](Tensor& values, const Rows& piece) {
    kernels::fill_normal(values, spec_.shape, piece.block, key, spec_.deviation);
    if (spec_.mean != 0) real_part(values, piece.block).add_(spec_.mean);
  });
}

void Shard::fill(const Fill& rows) {
  wait_for_values();
  if (!value_.defined()) allocate();
  write([&](Tensor& values, const Rows& piece) { rows(values, piece.block); });
}

void Shard::assign(const Tensor& values) {
  FOURFOLD_CHECK(values.sizes() == shape_, spec_.name, ": values of another shape");
  wait_for_values();
  if (!value_.defined()) allocate();
  write([&](Tensor& rows, const Rows& piece) {
    rows.copy_(values.narrow(0, piece.range.begin, piece.range.size()));
  });
}

void Shard::live_in(const Tensor& home, const Tensor& master, std::int64_t first) {
  FOURFOLD_CHECK(home.sizes() == shape_ && home.scalar_type() == precision_.compute);
  wait_for_values();
  const Tensor before = std::exchange(value_, home.detach().set_requires_grad(true));
  master_ = master;
  master_first_ = first;
  if (!before.defined()) return initialise();
  assign(before.detach());
}

}  // namespace fourfold::nn
