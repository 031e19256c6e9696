// Quantities as types, so that bytes cannot be added to seconds and names need no units.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace fourfold {

/// A number with a unit. Values of one unit can be added and compared. They are scaled by plain
/// numbers, and the ratio of two values of one unit is a plain number.
template <class Tag, class Number>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Number value) : value_(value) {}

  constexpr Number value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { return value_ += other.value_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value_ -= other.value_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Number n) { return Quantity(a.value_ * n); }
  friend constexpr Quantity operator*(Number n, Quantity a) { return a * n; }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }

 private:
  Number value_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr BytesPerSecond operator/(Bytes bytes, Seconds time) {
  return BytesPerSecond(static_cast<double>(bytes.value()) / time.value());
}
constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds(static_cast<double>(bytes.value()) / rate.value());
}
constexpr FlopsPerSecond operator/(Flops flops, Seconds time) {
  return FlopsPerSecond(flops.value() / time.value());
}
constexpr Seconds operator/(Flops flops, FlopsPerSecond rate) {
  return Seconds(flops.value() / rate.value());
}

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n));
}
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 30);
}
constexpr Seconds operator""_s(long double n) {
  return Seconds(static_cast<double>(n));
}
constexpr Seconds operator""_s(unsigned long long n) {
  return Seconds(static_cast<double>(n));
}
constexpr Seconds operator""_ms(unsigned long long n) {
  return Seconds(static_cast<double>(n) * 1e-3);
}
}  // namespace literals

/// A monotonic clock, in seconds since some fixed moment.
inline Seconds now() {
  const std::chrono::nanoseconds since = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(static_cast<double>(since.count()) * 1e-9);
}

/// For people, three digits: "1.50 MiB", "12.3 ms", "104 GFLOP/s".
std::string to_string(Bytes bytes);
std::string to_string(Flops flops);
std::string to_string(Seconds time);
std::string to_string(BytesPerSecond rate);
std::string to_string(FlopsPerSecond rate);

template <class Tag, class Number>
std::ostream& operator<<(std::ostream& out, Quantity<Tag, Number> quantity) {
  return out << to_string(quantity);
}

}  // namespace fourfold
