// What tests of one rank on the stand-in need: its device, with a compute stream that runs beside
// the host, and views of memory that counts as the device's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "tests/support/stand_in.hpp"

namespace fourfold::test {

inline comm::View on_device(std::vector<float>& values) {
  comm::View view = comm::view(values);
  view.memory = comm::Memory::kDevice;
  return view;
}

/// Gives a rank a device that computes on a stream of its own.
class Compute {
 public:
  explicit Compute(comm::World& world) {
    stand_in::api().set_device(world.rank());
    stream_ = stand_in::make_compute_stream();
    comm::nccl::Options options;
    options.compute_stream = [stream = stream_] { return stream; };
    stand_in::use_device(world, options);
  }
  comm::nccl::Stream stream() const { return stream_; }
  void launch(const char* name, const std::vector<stand_in::Range>& ranges,
              std::function<void()> body) const {
    stand_in::launch(stream_, name, ranges, std::move(body));
  }

 private:
  comm::nccl::Stream stream_ = nullptr;
};

}  // namespace fourfold::test
