// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/units.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace fourfold {

namespace {

/// Three significant digits, without an exponent.
std::string three_digits(double value) {
  const double size = std::fabs(value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

/// `value` in the largest of the growing units 1, base, base^2, ... that keeps it at 1 or above.
template <std::size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (unit + 1 < N && std::fabs(value) >= base * (1 - 0.5e-3)) {
    value /= base;
    ++unit;
  }
  return three_digits(value) + " " + units[unit];
}

}  // namespace

std::string to_string(Bytes bytes) {
  if (std::llabs(bytes.value()) < 1024) return std::to_string(bytes.value()) + " B";
  return scaled(static_cast<double>(bytes.value()), 1024,
                std::array{"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string to_string(Flops flops) {
  return scaled(flops.value(), 1000,
                std::array{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
}

std::string to_string(Seconds time) {
  if (std::fabs(time.value()) >= 0.9995 || time.value() == 0) {
    return three_digits(time.value()) + " s";
  }
  return scaled(time.value() * 1e9, 1000, std::array{"ns", "us", "ms"});
}

std::string to_string(BytesPerSecond rate) {
  return scaled(rate.value(), 1000, std::array{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
}

std::string to_string(FlopsPerSecond rate) {
  return scaled(
      rate.value(), 1000,
      std::array{"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"});
}

}  // namespace fourfold
