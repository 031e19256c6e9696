// Checks of internal conditions. A failed check is an InvariantError: a bug of ours, not a mistake
// of the user.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

/// Throws InvariantError unless `condition`; further arguments are appended to the message.
#define FOURFOLD_CHECK(condition, ...)                                                     \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      throw ::fourfold::InvariantError(                                                    \
          ::fourfold::concat("check failed: " #condition " " __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                      \
  } while (false)

/// Throws InvariantError unless `a == b`, and prints both.
#define FOURFOLD_CHECK_EQ(a, b, ...)                                                      \
  do {                                                                                    \
    const auto& fourfold_a = (a);                                                         \
    const auto& fourfold_b = (b);                                                         \
    if (!(fourfold_a == fourfold_b)) [[unlikely]] {                                       \
      throw ::fourfold::InvariantError(                                                   \
          ::fourfold::concat("check failed: " #a " == " #b ": ", fourfold_a, " against ", \
                             fourfold_b __VA_OPT__(, " ", ) __VA_ARGS__));                \
    }                                                                                     \
  } while (false)

#ifdef NDEBUG
#define FOURFOLD_DCHECK(condition, ...) static_cast<void>(0)
#else
/// The same as FOURFOLD_CHECK, but only in builds without NDEBUG, for hot paths.
#define FOURFOLD_DCHECK(condition, ...) FOURFOLD_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
