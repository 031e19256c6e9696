// Kernels of OpenBLAS for processors that the library does not know.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/blas_core.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace fourfold::launch {
namespace {

TEST(BlasCore, KernelsWithoutAvxAreReplaced) {
  for (const char* chosen : {"Prescott", "Nehalem", "Core2", "Opteron"}) {
    EXPECT_EQ(better_blas_core(chosen, true, true), "SkylakeX") << chosen;
    EXPECT_EQ(better_blas_core(chosen, true, false), "Haswell") << chosen;
  }
}

TEST(BlasCore, AnOldProcessorKeepsItsKernels) {
  EXPECT_EQ(better_blas_core("Prescott", false, false), "");
}

TEST(BlasCore, AGoodChoiceStays) {
  for (const char* chosen : {"Haswell", "SkylakeX", "Cooperlake", "Zen", "Sandybridge", ""}) {
    EXPECT_EQ(better_blas_core(chosen, true, true), "") << chosen;
  }
}

TEST(BlasCore, WhatTheUserSetsStays) {
  ASSERT_EQ(setenv("OPENBLAS_CORETYPE", "Prescott", 1), 0);
  EXPECT_EQ(wanted_blas_core(), "");
  unsetenv("OPENBLAS_CORETYPE");
}

}  // namespace
}  // namespace fourfold::launch
