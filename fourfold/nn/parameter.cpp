// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/parameter.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Pending;
using tensor::Purpose;

namespace {

Axes joined(const Axes& first, const Axes& second) {
  std::vector<Axis> all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return Axes(std::move(all));
}

ParameterSpec checked(const Mesh& mesh, ParameterSpec spec) {
  spec.check(mesh);
  return spec;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

grid::Layout ParameterSpec::layout() const {
  std::vector<Axes> dims = {joined(kept, gathered)};
  if (shape.size() == 2) dims.push_back(columns);
  return grid::Layout(std::move(dims));
}

Tensor real_part(const Tensor& shard, const grid::Block& block) {
  Tensor part = shard.detach();
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    part = part.narrow(static_cast<std::int64_t>(d), 0, block.ranges[d].size());
  }
  return part;
}

Parameter::Parameter(const Mesh& mesh, ParameterSpec spec, const Precision& precision,
                     std::uint64_t seed)
    : mesh_(&mesh),
      spec_(checked(mesh, std::move(spec))),
      precision_(precision),
      seed_(seed),
      layout_(spec_.layout()),
      shard_shape_(layout_.shard_shape(spec_.shape, mesh.grid())),
      passes_(spec_.name) {
  const grid::Grid& grid = mesh.grid();
  FOURFOLD_CHECK(precision.master == kernels::statistics_type(precision.compute), spec_.name,
                 ": parameters of bf16 are kept in float, others in their own type");
  rows_ = grid::shard_size(spec_.shape[0], spec_.kept, grid);
  if (spec_.shape.size() == 2) columns_ = grid::shard_size(spec_.shape[1], spec_.columns, grid);
  for (const std::int64_t extent : shard_shape_) size_ *= extent;
  mesh.join(spec_.gathered, Purpose::kWeights);
  mesh.join(spec_.summed, Purpose::kGradients);
  // The optimizer sums gradients over the replicas, and gathers new values.
  mesh.join(spec_.replicas, Purpose::kGradients);
  mesh.join(spec_.replicas, Purpose::kWeights);
}

// --- values

const Tensor& Parameter::leaf() const {
  if (!value_.defined()) {
    allocate();
    initialise();
  }
  return value_;
}

void Parameter::allocate() const {
  const MemoryScope scope(MemoryClass::kParameters);
  value_ = at::empty(shard_shape_, at::TensorOptions(precision_.compute).device(mesh_->device()))
               .set_requires_grad(true);
}

std::vector<Parameter::Rows> Parameter::pieces() const {
  constexpr std::int64_t kElements = 1 << 18;  // 1 MiB of float beside the model
  const grid::Block all = layout_.block(spec_.shape, mesh_->grid(), mesh_->coord());
  const std::int64_t rows = shard_shape_[0];
  const std::int64_t step =
      std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, columns_));
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

void Parameter::write(const std::function<void(Tensor&, const Rows&)>& write_rows) const {
  const Tensor all = value_.detach();
  const bool same = precision_.compute == precision_.master;
  const grid::Range kept = {master_first_,
                            master_first_ + (master_.defined() ? master_.numel() : 0)};
  for (const Rows& piece : pieces()) {
    const Tensor place = all.narrow(0, piece.range.begin, piece.range.size());
    Tensor values =
        same ? place : at::empty(place.sizes(), place.options().dtype(precision_.master));
    values.zero_();
    write_rows(values, piece);
    if (same) continue;
    place.copy_(values);
    const grid::Range elements = {piece.range.begin * columns_, piece.range.end * columns_};
    const grid::Range here = grid::intersect(elements, kept);
    if (here.empty()) continue;
    master_.narrow(0, here.begin - kept.begin, here.size())
        .copy_(values.flatten().narrow(0, here.begin - elements.begin, here.size()));
  }
}

void Parameter::initialise() const {
  const kernels::Key key = kernels::key_of(seed_, spec_.name);
  write([&](Tensor& values, const Rows& piece) {
    kernels::fill_normal(values, spec_.shape, piece.block, key, spec_.deviation);
    if (spec_.mean != 0) real_part(values, piece.block).add_(spec_.mean);
  });
}

void Parameter::fill(const Fill& rows) {
  arrive();
  if (!value_.defined()) allocate();
  write([&](Tensor& values, const Rows& piece) { rows(values, piece.block); });
}

void Parameter::assign(const Tensor& values) {
  FOURFOLD_CHECK(values.sizes() == shard_shape_, spec_.name, ": values of another shape");
  arrive();
  if (!value_.defined()) allocate();
  write([&](Tensor& rows, const Rows& piece) {
    rows.copy_(values.narrow(0, piece.range.begin, piece.range.size()));
  });
}

void Parameter::live_in(const Tensor& home, const Tensor& master, std::int64_t first) {
  FOURFOLD_CHECK(home.sizes() == shard_shape_ && home.scalar_type() == precision_.compute);
  arrive();
  const Tensor before = std::exchange(value_, home.detach().set_requires_grad(true));
  master_ = master;
  master_first_ = first;
  if (!before.defined()) return initialise();
  assign(before.detach());
}

// --- gradients

void Parameter::move_gradient_to(const Tensor& home) {
  FOURFOLD_CHECK(home.sizes() == shard_shape_ && home.scalar_type() == precision_.master);
  if (has_gradient_) home.copy_(gradient_);
  gradient_ = home;
}

Tensor Parameter::gradient() const {
  mesh_->backlog().drain();
  if (sum_.defined()) {
    throw InvariantError(spec_.name +
                         ": a part of the gradient waits for the backward pass of another graph");
  }
  return has_gradient_ ? gradient_ : Tensor();
}

void Parameter::drop_gradient() {
  gradient_ = Tensor();
  forget_gradient();
}

Parameter::Slot Parameter::gradient_slot() {
  if (!gradient_.defined() && on_gradient_) on_gradient_();
  if (!gradient_.defined()) {
    const MemoryScope scope(MemoryClass::kGradients);
    gradient_ =
        at::empty(shard_shape_, at::TensorOptions(precision_.master).device(mesh_->device()));
  }
  const kernels::Into into = has_gradient_ ? kernels::Into::kSum : kernels::Into::kNew;
  has_gradient_ = true;
  return {gradient_, into};
}

std::int64_t Parameter::outer_blocks() const {
  return spec_.gathered.size() == 2 ? mesh_->size(spec_.gathered[0]) : 1;
}

std::int64_t Parameter::padded_rows() const {
  return shard_shape_[0] * mesh_->size(spec_.gathered);
}

const comm::Communicator& Parameter::weight_comm() const {
  return mesh_->comm(spec_.gathered, Purpose::kWeights);
}

const comm::Communicator& Parameter::gradient_comm() const {
  return mesh_->comm(spec_.summed, Purpose::kGradients);
}

tensor::Gathered Parameter::start_gather() const {
  const Tensor shard = value().detach();
  tensor::Gathered gathered;
  if (is_whole()) {
    gathered.tensors = {shard};
    return gathered;
  }
  const comm::Communicator& comm = weight_comm();
  const LayerScope issuer(layer());
  const MemoryScope scope(MemoryClass::kCommunication);
  std::vector<std::int64_t> sizes = shard.sizes().vec();
  sizes[0] *= comm.size();
  gathered.tensors = {at::empty(sizes, shard.options())};
  gathered.sources = {shard};
  gathered.works.push_back(comm.all_gather(tensor::view(shard), tensor::view(gathered.tensors[0])));
  return gathered;
}

std::int64_t Parameter::gathered_bytes() const {
  return size_ * static_cast<std::int64_t>(c10::elementSize(precision_.compute)) *
         mesh_->size(spec_.gathered);
}

// --- gradients of uses

Parameter::Use::~Use() {
  if (open_) --parameter_->uses_;  // what other uses have added stays
}

/// Whether this was the last open use.
bool Parameter::Use::close() {
  FOURFOLD_CHECK(open_, parameter_->name(), ": a second backward pass through the same graph");
  parameter_->passes_.arrive();
  open_ = false;
  if (--parameter_->uses_ > 0) return false;
  parameter_->passes_.complete();
  return true;
}

void Parameter::Use::end() {
  if (close()) parameter_->reduce_sum();
}

std::function<void(const Tensor&)> Parameter::Use::ending() {
  FOURFOLD_CHECK(!parameter_->sum_.defined(), parameter_->name(), ": a part of another kind");
  const bool completes = close();
  return
      [parameter = parameter_, completes, last = parameter_->passes_.last()](const Tensor& part) {
        parameter->accumulate(part);
        if (completes) parameter->complete(last);
      };
}

void Parameter::Use::end_later(std::int64_t bytes, std::function<Tensor()> part) {
  parameter_->mesh_->backlog().add(bytes,
                                   [add = ending(), part = std::move(part)] { add(part()); });
}

std::shared_ptr<Parameter::Use> Parameter::use() {
  return at::GradMode::is_enabled() ? std::make_shared<Use>(shared_from_this()) : nullptr;
}

/// Where nothing is to be reduced, uses add to the gradient itself. If there is only one use, no
/// sum is needed: its product is rounded to the type of the wire at once.
Parameter::Slot Parameter::sum_slot(at::ScalarType wire) {
  if (mesh_->size(spec_.gathered) == 1) return gradient_slot();
  const kernels::Into into = sum_.defined() ? kernels::Into::kSum : kernels::Into::kNew;
  if (!sum_.defined()) {
    wire_ = wire;
    const MemoryScope scope(MemoryClass::kCommunication);
    // With several outer blocks, padding is added when the sum is reduced. With one block there is
    // room for the padding at the end.
    const std::int64_t rows = outer_blocks() == 1 ? padded_rows() : rows_;
    const at::ScalarType type = uses_ == 1 ? wire : precision_.master;
    sum_ = at::empty({rows, columns_}, at::TensorOptions(type).device(mesh_->device()));
    if (rows > rows_) sum_.narrow(0, rows_, rows - rows_).zero_();
  }
  FOURFOLD_CHECK(wire_ == wire, spec_.name, ": uses that reduce in different types");
  return {sum_.narrow(0, 0, rows_), into};
}

void Parameter::reduce_sum() {
  const bool last = passes_.last();
  if (!sum_.defined()) return complete(last);
  const LayerScope issuer(layer());
  const MemoryScope scope(MemoryClass::kCommunication);
  const Tensor own = own_part(outer_blocks() == 1 ? sum_ : pad(sum_)).to(wire_);
  sum_ = Tensor();
  auto reduced = std::make_shared<Pending>(tensor::reduce_scatter(
      gradient_comm(), own,
      mesh_->overlap().weight_gradients ? comm::Priority::kBackground : comm::Priority::kUrgent));
  mesh_->backlog().add(static_cast<std::int64_t>(own.nbytes()),
                       [self = shared_from_this(), reduced, last] {
                         self->accumulate(reduced->wait());
                         self->complete(last);
                       });
}

Tensor Parameter::trim(const Tensor& gathered) const {
  if (gathered.size(0) == rows_) return gathered;
  const std::int64_t outer = outer_blocks();
  if (outer == 1) return gathered.narrow(0, 0, rows_);
  // Each outer block has its own padding at its end.
  std::vector<std::int64_t> sizes = gathered.sizes().vec();
  sizes[0] = gathered.size(0) / outer;
  sizes.insert(sizes.begin(), outer);
  const std::int64_t filled = divide_up(rows_, outer);
  return gathered.view(sizes).narrow(1, 0, filled).flatten(0, 1).narrow(0, 0, rows_);
}

Tensor Parameter::pad(const Tensor& rows) const {
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
  return result;
}

Tensor Parameter::own_part(const Tensor& padded) const {
  if (spec_.summed == spec_.gathered) return padded;
  FOURFOLD_CHECK(spec_.gathered.size() == 2 && spec_.summed == Axes(spec_.gathered[1]), spec_.name,
                 ": summed over ", spec_.summed, ", gathered over ", spec_.gathered);
  const std::int64_t part = padded.size(0) / outer_blocks();
  return padded.narrow(0, mesh_->index(spec_.gathered[0]) * part, part);
}

void Parameter::accumulate(const Tensor& part) {
  FOURFOLD_CHECK(part.sizes() == shard_shape_, spec_.name, ": a gradient of another shape");
  const Slot slot = gradient_slot();
  if (slot.into == kernels::Into::kSum) {
    kernels::add_to(slot.tensor, part);
  } else {
    slot.tensor.copy_(part);
  }
}

}  // namespace fourfold::nn
