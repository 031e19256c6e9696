// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/few_outputs.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// Images of all samples, one after the other, in lines: a plane is such a list for one output, or
/// for one output and one tap.
struct Planes {
  std::int64_t samples;
  std::int64_t outputs;
  ConvShape shape;
};

/// The lines and columns of the output whose pixels the window at one tap moves into the image.
struct Shift {
  [[gnu::always_inline]] Shift(const ConvShape& s, std::int64_t tap)
      : down(tap / s.kernel_width * s.dilation - s.pad_height),
        right(tap % s.kernel_width * s.dilation - s.pad_width),
        top(std::max<std::int64_t>(0, -down)),
        bottom(std::max(top, std::min(s.out_height(), s.height - down))),
        begin(std::max<std::int64_t>(0, -right)),
        end(std::max(begin, std::min(s.out_width(), s.width - right))) {}
  std::int64_t down;
  std::int64_t right;
  std::int64_t top;
  std::int64_t bottom;
  std::int64_t begin;
  std::int64_t end;
};

/// sums[output] = the sum over the taps of products[tap][output], shifted.
template <class A>
struct SumShifted {
  [[gnu::always_inline]] static inline void run(const A* products, A* sums, Planes p) {
    const ConvShape& s = p.shape;
    const std::int64_t in = s.pixels();
    const std::int64_t out = s.out_pixels();
    for (std::int64_t i = 0; i < p.outputs * p.samples * out; ++i) sums[i] = 0;
    for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
      const Shift shift(s, tap);
      for (std::int64_t image = 0; image < p.outputs * p.samples; ++image, products += in) {
        for (std::int64_t y = shift.top; y < shift.bottom; ++y) {
          const A* from = products + (y + shift.down) * s.width + shift.right;
          A* to = sums + image * out + y * s.out_width();
#pragma GCC ivdep
          for (std::int64_t x = shift.begin; x < shift.end; ++x) to[x] += from[x];
        }
      }
    }
  }
};

/// shifted[tap][output] = the images of the output, moved to where they came from; zero where they
/// came from outside.
template <class T>
struct Shifted {
  [[gnu::always_inline]] static inline void run(const T* images, T* shifted, Planes p) {
    const ConvShape& s = p.shape;
    const std::int64_t in = s.pixels();
    const std::int64_t out = s.out_pixels();
    for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
      const Shift shift(s, tap);
      for (std::int64_t image = 0; image < p.outputs * p.samples; ++image, shifted += in) {
        std::fill(shifted, shifted + in, T{});
        for (std::int64_t y = shift.top; y < shift.bottom; ++y) {
          const T* from = images + image * out + y * s.out_width();
          T* to = shifted + (y + shift.down) * s.width + shift.right;
#pragma GCC ivdep
          for (std::int64_t x = shift.begin; x < shift.end; ++x) to[x] = from[x];
        }
      }
    }
  }
};

/// out × taps × in -> (taps * out) × in.
Tensor by_taps(const Tensor& weight) {
  return weight.transpose(0, 1).contiguous().flatten(0, 1);
}

/// The gradient of the output as (taps * out) × pixels of the input: column i has, for each tap and
/// output, the gradient of the pixel that the tap takes pixel i to.
Tensor shifted_gradient(const Tensor& gradient, const ConvShape& shape) {
  const std::int64_t outputs = gradient.size(1);
  const std::int64_t samples = gradient.size(0) / shape.out_pixels();
  const Tensor images = gradient.t().contiguous();
  Tensor shifted =
      at::empty({shape.taps() * outputs, samples * shape.pixels()}, gradient.options());
  dispatch(gradient, [&]<class T>(T) {
    run_vectorised<Shifted<T>>(elements<const T>(images), elements<T>(shifted),
                               Planes{samples, outputs, shape});
  });
  return shifted;
}

}  // namespace

bool takes_shifted_sums(std::int64_t outputs, const ConvShape& shape) {
  constexpr std::int64_t kMost = 8;
  return outputs <= kMost && shape.stride == 1 && shape.taps() > 1;
}

Tensor conv_by_shifts(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const std::int64_t outputs = weight.size(0);
  const std::int64_t samples = input.size(0) / shape.pixels();
  const auto wide = input.options().dtype(statistics_type(input.scalar_type()));
  Tensor products = at::empty({shape.taps() * outputs, input.size(0)}, wide);
  cpu::multiply(products, by_taps(weight), input.t());
  Tensor sums = at::empty({outputs, samples * shape.out_pixels()}, wide);
  const auto add_up = [&]<class A>(A) {
    run_vectorised<SumShifted<A>>(elements<const A>(products), elements<A>(sums),
                                  Planes{samples, outputs, shape});
  };
  if (sums.scalar_type() == at::kDouble) {
    add_up(double{});
  } else {
    add_up(float{});
  }
  return sums.t().to(input.scalar_type()).contiguous();
}

void weight_gradient_by_shifts(Tensor& out, const Tensor& gradient, const Tensor& input,
                               const ConvShape& shape, Into into) {
  Tensor products = at::empty({shape.taps() * out.size(0), out.size(2)}, out.options());
  cpu::multiply(products, shifted_gradient(gradient, shape), input);
  const Tensor found = products.view({shape.taps(), out.size(0), out.size(2)}).transpose(0, 1);
  if (into == Into::kSum) {
    add_to(out, found.contiguous());
  } else {
    out.copy_(found);
  }
}

}  // namespace fourfold::kernels::cpu
