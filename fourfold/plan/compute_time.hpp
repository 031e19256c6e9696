// The time that a stretch of compute takes on a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/cluster.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::plan {

/// The start of a kernel, and then the longer of two times: the arithmetic, for products at the
/// rate of their extent and type and for attention at a rate of its own; or the bytes at the speed
/// of the memory. Work that is computed in f32 here for want of bf16 (`Arithmetic::widened`) is
/// computed in bf16 by GPUs, and they have no conversions for it.
Seconds seconds_of(const schedule::Compute& compute, const cluster::Cluster& cluster);

}  // namespace fourfold::plan
