// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/blas_core.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>

#include "fourfold/base/processor.hpp"

namespace fourfold::launch {

std::string blas_core() {
  using CoreName = char* (*)();
  const auto name = reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name != nullptr ? name() : std::string();
}

std::string better_blas_core(std::string_view chosen, bool avx2, bool avx512) {
  // What OpenBLAS falls back to, and other kernels of Intel and AMD that are older than AVX.
  constexpr std::array<std::string_view, 9> kWithoutAvx = {
      "Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Athlon", "Atom", "Nano", "Opteron"};
  const bool without_avx =
      std::find(kWithoutAvx.begin(), kWithoutAvx.end(), chosen) != kWithoutAvx.end();
  if (!without_avx || !avx2) return {};
  return avx512 ? "SkylakeX" : "Haswell";
}

std::string wanted_blas_core() {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return {};
  return better_blas_core(blas_core(), can_take_special_way(Choice::kVectors), has_avx512());
}

}  // namespace fourfold::launch
