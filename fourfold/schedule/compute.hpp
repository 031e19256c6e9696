// A stretch of arithmetic as a value: what limits it, in which type, and how much of it there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "fourfold/base/units.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::schedule {

/// What determines how long arithmetic takes.
enum class Work : std::uint8_t {
  kProduct,    ///< a matrix product: the rate of products of its extent and type
  kAttention,  ///< attention, whose products stay in the cache: a rate of its own
  kMemory,     ///< everything that touches whole tensors and computes little: the memory
  kOptimizer   ///< the update of parameters: the memory, with several streams at once
};
inline constexpr std::array kAllWorks = {Work::kProduct, Work::kAttention, Work::kMemory,
                                         Work::kOptimizer};

/// The part of a training step.
enum class Phase : std::uint8_t {
  kForward,
  kRecompute,  ///< a forward pass inside the backward pass, of activations that were not kept
  kBackward,
  kUpdate  ///< what the optimizer does after the last backward pass
};
inline constexpr std::array kAllPhases = {Phase::kForward, Phase::kRecompute, Phase::kBackward,
                                          Phase::kUpdate};

std::string_view to_string(Work work);    ///< "product", "attention", "memory", "optimizer"
std::string_view to_string(Phase phase);  ///< "forward", "recompute", "backward", "update"
std::ostream& operator<<(std::ostream& out, Work work);
std::ostream& operator<<(std::ostream& out, Phase phase);

/// The sizes of a product of an m x k and a k x n matrix; zeros for other work.
struct Extent {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;

  bool operator==(const Extent&) const = default;
};

/// How much is computed.
struct Arithmetic {
  Work work = Work::kMemory;
  DType dtype = DType::kF32;  ///< of the elements that are computed with
  Extent extent{};
  Flops flops{};
  Bytes bytes{};  ///< read and written in memory
  /// Whether this machine computes bf16 tensors in f32 here, since its processors multiply no bf16
  /// (attention), or converts tensors for that alone. `dtype` and `bytes` are those of the f32. A
  /// device that multiplies bf16 needs no conversion and half the bytes.
  bool widened = false;

  bool operator==(const Arithmetic&) const = default;
};

/// A product of an m x k and a k x n matrix, which reads and writes `bytes`.
Arithmetic product_of(const Extent& extent, DType dtype, Bytes bytes);

/// A stretch of arithmetic on the compute stream.
struct Compute {
  std::string name;  ///< its kind: "linear dW"
  Arithmetic arithmetic{};
  Phase phase = Phase::kForward;
  std::string layer{};  ///< "h.3.mlp.c_fc"; empty: none

  bool operator==(const Compute&) const = default;
};

/// "h.3.mlp.c_fc linear dW (backward, product 4096 x 512 x 2048 bf16): 8.59 GFLOP, 3.00 MiB".
std::string to_string(const Compute& compute);

}  // namespace fourfold::schedule
