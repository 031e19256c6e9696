// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>

#include "fourfold/comm/flight_file.hpp"
#include "fourfold/report/autopsy.hpp"

#include "tests/fuzz/file.hpp"

namespace {

using fourfold::comm::FlightFile;

/// A log whose beginning is the first half of the bytes, and whose operations are the other half;
/// there are no further ones, which would only take time.
std::string put_log(const std::string& name, const std::uint8_t* bytes, std::size_t size) {
  static const auto log = std::make_unique<FlightFile>();
  std::memset(log.get(), 0, sizeof(FlightFile));
  for (FlightFile::Operation& operation : log->operations) operation.number = -1;
  log->magic = fourfold::comm::kFlightMagic;
  const std::size_t half = size / 2;
  std::memcpy(&log->rank, bytes,
              std::min(half, offsetof(FlightFile, operations) - sizeof log->magic));
  std::memcpy(log->operations.data(), bytes + half, std::min(size - half, sizeof log->operations));
  return fourfold::fuzz::put(name, reinterpret_cast<const std::uint8_t*>(log.get()),
                             sizeof(FlightFile));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const fourfold::comm::FlightLog first =
        fourfold::comm::read_flight_log(put_log("a.flight", bytes, size / 2));
    const fourfold::comm::FlightLog second =
        fourfold::comm::read_flight_log(put_log("b.flight", bytes + size / 2, size - size / 2));
    if (fourfold::report::autopsy({first, second}).summary.empty()) std::abort();
  });
}
