// Random numbers with the same bits as everywhere. Dropout, which is drawn in every step, is
// computed where the tensor lies. Normal numbers need the logarithm and the cosine of one library,
// so that the processor draws them, and they are copied. For those of a step the host does not
// wait. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "fourfold/kernels/aten/philox.hpp"
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/bring.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

Tensor on_processor(const Tensor& like) {
  return at::empty(like.sizes(), like.options().device(at::kCPU));
}

Tensor mask_of(const Window2& window, Key key, double p, double scale, const Tensor& like,
               at::ScalarType type) {
  const Tensor rows = at::arange(window.rows.begin, window.rows.end,
                                 at::TensorOptions().dtype(at::kLong).device(like.device()));
  return dropout_mask(rows, window.columns, key, p, scale, type);
}

/// A number for each sample, to be multiplied by the elements of `images`.
Tensor of_samples(std::span<const double> numbers, const Tensor& images) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(images.dim()), 1);
  sizes[0] = images.size(0);
  const Tensor here = at::tensor(at::ArrayRef<double>(numbers.data(), numbers.size()), at::kDouble)
                          .to(images.scalar_type());
  return bring(here, images.device()).view(sizes);
}

}  // namespace

void fill_normal(Tensor& shard, const grid::Shape& global, const grid::Block& block, Key key,
                 double deviation) {
  const NoGraph guard;
  Tensor drawn = on_processor(shard);
  cpu::fill_normal(drawn, global, block, key, deviation);
  shard.copy_(drawn);
}

void fill_dropout_mask(Tensor& mask, const Window2& window, Key key, double p, double scale) {
  const NoGraph guard;
  mask.copy_(mask_of(window, key, p, scale, mask, statistics_type(mask.scalar_type())));
}

void apply_dropout(const Tensor& in, Tensor& out, const Window2& window, Key key, double p) {
  const NoGraph guard;
  const Tensor values = wide(in);
  out.copy_(values.mul(mask_of(window, key, p, 1 / (1 - p), in, values.scalar_type())));
}

void fill_noise(const Tensor& noise, std::int64_t first, Key key) {
  const NoGraph guard;
  const Tensor drawn = on_processor(noise);
  cpu::fill_noise(drawn, first, key);
  noise.copy_(bring(drawn, noise.device()));
}

void mix_noise(const Tensor& images, const Tensor& out, std::int64_t first, Key key,
               std::span<const double> signal, std::span<const double> noise) {
  const NoGraph guard;
  const Tensor drawn = on_processor(images);
  cpu::fill_noise(drawn, first, key);
  const Tensor mixed = bring(drawn, images.device()).mul(of_samples(noise, images));
  out.copy_(mixed.addcmul_(images, of_samples(signal, images)));
}

}  // namespace fourfold::kernels::aten
