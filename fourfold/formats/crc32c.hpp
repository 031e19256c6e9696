// The checksum of TensorBoard's records: CRC-32 with Castagnoli's polynomial.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace fourfold::formats {

std::uint32_t crc32c(std::string_view bytes);

/// The checksum as it is stored in a record. It is masked, so that records within records do not
/// contain the checksum of a checksum.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace fourfold::formats
