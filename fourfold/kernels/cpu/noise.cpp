// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// Numbers are drawn into memory that stays in the cache.
constexpr std::int64_t kRun = 256;

std::int64_t elements_of_sample(const Tensor& tensor) {
  return tensor.size(0) == 0 ? 0 : tensor.numel() / tensor.size(0);
}

template <class T, class Out>
void mix(const T* images, Out* out, std::int64_t sample, std::int64_t count, Key key,
         Wide<T> signal, Wide<T> noise) {
  std::array<T, kRun> drawn;
  for (std::int64_t first = 0; first < count; first += kRun) {
    const std::int64_t here = std::min(kRun, count - first);
    fill_normal_run(drawn.data(), sample, first, here, key);
    for (std::int64_t i = 0; i < here; ++i) {
      out[first + i] = narrow<Out>(static_cast<Wide<Out>>(
          signal * images[first + i] + noise * drawn[static_cast<std::size_t>(i)]));
    }
  }
}

template <class Body>
void by_type(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  body(float{});
}

}  // namespace

void fill_noise(const Tensor& noise, std::int64_t first, Key key) {
  const std::int64_t count = elements_of_sample(noise);
  by_type(noise, [&]<class T>(T) {
    auto* out = elements<T>(noise);
    for (std::int64_t i = 0; i < noise.size(0); ++i) {
      fill_normal_run(out + i * count, first + i, 0, count, key);
    }
  });
}

void mix_noise(const Tensor& images, const Tensor& out, std::int64_t first, Key key,
               std::span<const double> signal, std::span<const double> noise) {
  const std::int64_t count = elements_of_sample(images);
  by_type(images, [&]<class T>(T) {
    dispatch(out, [&]<class Out>(Out) {
      for (std::int64_t i = 0; i < images.size(0); ++i) {
        const auto s = static_cast<std::size_t>(i);
        mix(elements<const T>(images) + i * count, elements<Out>(out) + i * count, first + i, count,
            key, static_cast<T>(signal[s]), static_cast<T>(noise[s]));
      }
    });
  });
}

}  // namespace fourfold::kernels::cpu
