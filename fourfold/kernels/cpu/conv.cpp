// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "fourfold/base/processor.hpp"
#include "fourfold/kernels/aten/convolution.hpp"
#include "fourfold/kernels/cpu/few_outputs.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

std::int64_t samples_of(const Tensor& rows, std::int64_t pixels) {
  return rows.size(0) / pixels;
}

// --- by columns and products: for each pixel of the output, the pixels of its window side by side

/// The part of the window at `out` along one dimension that lies inside of the image.
struct Inside {
  Inside(std::int64_t out, std::int64_t size, std::int64_t kernel, std::int64_t pad,
         const ConvShape& shape)
      : first(out * shape.stride - pad), step(shape.dilation) {
    while (begin < kernel && first + begin * step < 0) ++begin;
    end = begin;
    while (end < kernel && first + end * step < size) ++end;
  }
  std::int64_t at(std::int64_t tap) const { return first + tap * step; }

  std::int64_t first;
  std::int64_t step;
  std::int64_t begin = 0;  ///< the first tap that is inside
  std::int64_t end = 0;
};

/// Calls `visit(pixel of the output, tap, pixel of the input)` for every tap of a sample that is
/// inside of the image.
template <class Visit>
void for_each_tap(const ConvShape& shape, const Visit& visit) {
  for (std::int64_t y = 0; y < shape.out_height(); ++y) {
    const Inside rows(y, shape.height, shape.kernel_height, shape.pad_height, shape);
    for (std::int64_t x = 0; x < shape.out_width(); ++x) {
      const Inside columns(x, shape.width, shape.kernel_width, shape.pad_width, shape);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        for (std::int64_t j = columns.begin; j < columns.end; ++j) {
          visit(y * shape.out_width() + x, i * shape.kernel_width + j,
                rows.at(i) * shape.width + columns.at(j));
        }
      }
    }
  }
}

/// Samples whose columns take a few MiB: they stay in the cache until they are multiplied.
std::int64_t samples_at_once(const ConvShape& shape, const Tensor& input) {
  constexpr std::int64_t kBytes = 4 << 20;
  const auto bytes = shape.out_pixels() * shape.taps() * input.size(1) *
                     static_cast<std::int64_t>(input.element_size());
  return std::max<std::int64_t>(1, kBytes / std::max<std::int64_t>(1, bytes));
}

/// Writes the windows of some samples: out_pixels × (taps * channels) for each. What lies outside
/// of the image must be zero, and stays as it is.
void fill_columns(const Tensor& input, const ConvShape& shape, std::int64_t first,
                  std::int64_t count, Tensor& columns) {
  const std::int64_t channels = input.size(1);
  const std::size_t run = static_cast<std::size_t>(channels) * input.element_size();
  const std::size_t line = run * static_cast<std::size_t>(shape.taps());
  const auto* from = static_cast<const char*>(input.data_ptr());
  auto* to = static_cast<char*>(columns.data_ptr());
  for (std::int64_t n = 0; n < count; ++n) {
    const char* image = from + static_cast<std::size_t>((first + n) * shape.pixels()) * run;
    char* lines = to + static_cast<std::size_t>(n * shape.out_pixels()) * line;
    for_each_tap(shape, [&](std::int64_t out, std::int64_t tap, std::int64_t pixel) {
      std::memcpy(
          lines + static_cast<std::size_t>(out) * line + static_cast<std::size_t>(tap) * run,
          image + static_cast<std::size_t>(pixel) * run, run);
    });
  }
}

/// Adds the gradients of windows to the gradients of their pixels.
void add_columns(const Tensor& columns, const ConvShape& shape, std::int64_t first,
                 std::int64_t count, Tensor& result) {
  const std::int64_t channels = result.size(1);
  dispatch(result, [&]<class T>(T) {
    const T* from = elements<const T>(columns);
    T* to = elements<T>(result) + first * shape.pixels() * channels;
    for (std::int64_t n = 0; n < count; ++n) {
      for_each_tap(shape, [&](std::int64_t out, std::int64_t tap, std::int64_t pixel) {
        const T* a = from + (out * shape.taps() + tap) * channels;
        T* b = to + pixel * channels;
#pragma GCC ivdep
        for (std::int64_t c = 0; c < channels; ++c) b[c] = narrow<T>(widen(b[c]) + widen(a[c]));
      });
      from += shape.out_pixels() * shape.taps() * channels;
      to += shape.pixels() * channels;
    }
  });
}

/// Calls `use(columns, rows of the output)` for some samples at a time.
template <class Use>
void with_columns(const Tensor& input, const ConvShape& shape, const Use& use) {
  const std::int64_t samples = samples_of(input, shape.pixels());
  const std::int64_t most = std::min(samples, samples_at_once(shape, input));
  Tensor columns =
      at::zeros({most * shape.out_pixels(), shape.taps() * input.size(1)}, input.options());
  for (std::int64_t first = 0; first < samples; first += most) {
    const std::int64_t count = std::min(most, samples - first);
    Tensor here = columns.narrow(0, 0, count * shape.out_pixels());
    fill_columns(input, shape, first, count, here);
    use(here, grid::Range{first * shape.out_pixels(), (first + count) * shape.out_pixels()});
  }
}

Tensor conv_by_columns(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const std::int64_t samples = samples_of(input, shape.pixels());
  Tensor out = at::empty({samples * shape.out_pixels(), weight.size(0)}, input.options());
  with_columns(input, shape, [&](const Tensor& columns, const grid::Range& rows) {
    Tensor target = out.narrow(0, rows.begin, rows.size());
    cpu::multiply(target, columns, weight.flatten(1).t());
  });
  return out;
}

Tensor input_gradient_by_columns(const Tensor& gradient, const Tensor& weight,
                                 const ConvShape& shape) {
  const std::int64_t samples = samples_of(gradient, shape.out_pixels());
  Tensor result = at::zeros({samples * shape.pixels(), weight.size(2)}, gradient.options());
  const std::int64_t most = std::min(samples, samples_at_once(shape, result));
  for (std::int64_t first = 0; first < samples; first += most) {
    const std::int64_t count = std::min(most, samples - first);
    const Tensor rows = gradient.narrow(0, first * shape.out_pixels(), count * shape.out_pixels());
    Tensor columns = at::empty({rows.size(0), shape.taps() * weight.size(2)}, gradient.options());
    cpu::multiply(columns, rows, weight.flatten(1));
    add_columns(columns, shape, first, count, result);
  }
  return result;
}

void weight_gradient_by_columns(Tensor& out, const Tensor& gradient, const Tensor& input,
                                const ConvShape& shape, Into into) {
  Tensor flat = out.flatten(1);
  with_columns(input, shape, [&](const Tensor& columns, const grid::Range& rows) {
    const bool first = rows.begin == 0 && into == Into::kNew;
    cpu::multiply(flat, gradient.narrow(0, rows.begin, rows.size()).t(), columns,
                  first ? Into::kNew : Into::kSum);
  });
}

// --- which way

/// oneDNN has no convolutions of float64, and those of libtorch itself take columns of the whole
/// batch.
bool takes_columns(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble;
}

/// oneDNN's gradient of weights is slow where there are few rows.
constexpr std::int64_t kFewRows = 128;

bool is_bf16_by_float(const Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 && !takes_special_way(Choice::kBf16Products);
}

}  // namespace

Tensor conv(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const at::AutoDispatchBelowADInplaceOrView direct;  // views without a graph cost less
  if (shape.is_pointwise()) {
    Tensor out = at::empty({input.size(0), weight.size(0)}, input.options());
    cpu::multiply(out, input, weight.flatten(1).t());
    return out;
  }
  if (takes_shifted_sums(weight.size(0), shape)) return conv_by_shifts(input, weight, shape);
  if (takes_columns(input)) return conv_by_columns(input, weight, shape);
  if (is_bf16_by_float(input)) {
    return aten::convolve(input.to(at::kFloat), weight.to(at::kFloat), shape).to(at::kBFloat16);
  }
  return aten::convolve(input, weight, shape);
}

Tensor conv_input_gradient(const Tensor& gradient, const Tensor& weight, const ConvShape& shape) {
  const std::int64_t samples = samples_of(gradient, shape.out_pixels());
  const std::array<std::int64_t, 2> sizes = {samples * shape.pixels(), weight.size(2)};
  const at::AutoDispatchBelowADInplaceOrView direct;
  if (shape.is_pointwise()) {
    Tensor out = at::empty(sizes, gradient.options());
    cpu::multiply(out, gradient, weight.flatten(1));
    return out;
  }
  if (takes_columns(gradient)) return input_gradient_by_columns(gradient, weight, shape);
  const bool by_float = is_bf16_by_float(gradient);
  const Tensor wide = by_float ? gradient.to(at::kFloat) : gradient;
  const Tensor weights = by_float ? weight.to(at::kFloat) : weight;
  const Tensor rows = aten::convolved_input_gradient(wide, weights, shape);
  return by_float ? rows.to(at::kBFloat16) : rows;
}

void conv_weight_gradient(Tensor& out, const Tensor& gradient, const Tensor& input,
                          const ConvShape& shape, Into into) {
  const at::AutoDispatchBelowADInplaceOrView direct;
  if (shape.is_pointwise()) {
    Tensor flat = out.flatten(1);
    return cpu::multiply(flat, gradient.t(), input, into);
  }
  if (takes_shifted_sums(out.size(0), shape)) {
    return weight_gradient_by_shifts(out, gradient, input, shape, into);
  }
  if (takes_columns(gradient) || gradient.size(0) <= kFewRows) {
    return weight_gradient_by_columns(out, gradient, input, shape, into);
  }
  const bool by_float = is_bf16_by_float(gradient);
  const Tensor upstream = by_float ? gradient.to(at::kFloat) : gradient;
  const Tensor rows = by_float ? input.to(at::kFloat) : input;
  const Tensor found = aten::convolved_weight_gradient(upstream, rows, shape);
  if (into == Into::kSum) {
    add_to(out, found);
  } else {
    out.copy_(found);
  }
}

}  // namespace fourfold::kernels::cpu
