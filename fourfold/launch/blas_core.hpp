// OpenBLAS chooses its kernels by the model number of the processor. A processor that is newer than
// the library gets kernels without AVX, and products are many times slower than they could be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::launch {

/// The kernels that OpenBLAS has chosen, as it calls them ("Haswell", "SkylakeX"); empty when
/// OpenBLAS is not loaded.
std::string blas_core();

/// The kernels that a processor with these instructions should have instead of the `chosen` ones;
/// empty when the choice is good.
std::string better_blas_core(std::string_view chosen, bool avx2, bool avx512);

/// The value that OPENBLAS_CORETYPE needs in this process before the library loads; empty when the
/// user has set the variable, or when OpenBLAS is not loaded or has chosen well.
std::string wanted_blas_core();

}  // namespace fourfold::launch
