// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

#define FOURFOLD_ENTRY(name) .name = name,

namespace cpu {
const Functions kFunctions = {FOURFOLD_EACH_KERNEL(FOURFOLD_ENTRY)};
}  // namespace cpu

namespace aten {
const Functions kFunctions = {FOURFOLD_EACH_KERNEL(FOURFOLD_ENTRY)};
}  // namespace aten

#undef FOURFOLD_ENTRY

}  // namespace fourfold::kernels
