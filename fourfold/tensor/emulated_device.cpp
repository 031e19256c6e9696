// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/emulated_device.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "fourfold/base/text.hpp"

namespace fourfold::tensor {

namespace {

/// A shorter sleep would take about as long as this one.
constexpr Seconds kShortestSleep{50e-6};

/// `moment` is a time of fourfold::now.
void sleep_until(Seconds moment) {
  const double whole = std::floor(moment.value());
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(whole);
  time.tv_nsec = static_cast<long>((moment.value() - whole) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

}  // namespace

Seconds DeviceRates::time_of(const schedule::Arithmetic& arithmetic) const {
  Seconds time;
  if (flops.value() > 0) time = std::max(time, arithmetic.flops / flops);
  if (bytes.value() > 0) time = std::max(time, arithmetic.bytes / bytes);
  return time;
}

std::string to_string(const DeviceRates& rates) {
  std::vector<std::string> parts;
  if (rates.flops.value() > 0) parts.push_back(concat(rates.flops));
  if (rates.bytes.value() > 0) parts.push_back(concat(rates.bytes));
  return join(parts, " and ");
}

void EmulatedDevice::begin_step() {
  begin_ = now();
  clock_ = std::max(clock_, begin_);
  in_step_ = true;
}

void EmulatedDevice::end_step() {
  if (clock_ > now()) sleep_until(clock_);
  in_step_ = false;
  const Seconds end = now();
  lag_ += std::max(Seconds(), end - clock_);
  in_steps_ += end - begin_;
}

void EmulatedDevice::computed(const comm::Computed& computed) {
  clock_ += rates_.time_of(computed.arithmetic);
  if (clock_ > now() + kShortestSleep) sleep_until(clock_);
}

void EmulatedDevice::ended(const comm::Observed& operation, const comm::Run& run) {
  if (run.ended == Seconds()) return;  // it took no time, and is not waited for
  const std::lock_guard lock(mutex_);
  ends_[operation.number] = run.ended;
}

void EmulatedDevice::waited(const comm::Observed& operation,
                            const std::optional<comm::Blocked>& blocked) {
  Seconds ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = ends_.find(operation.number);
    if (found == ends_.end()) return;  // it ended before the device was there
    ended = found->second;
    ends_.erase(found);
  }
  const Seconds arrived = blocked ? blocked->since : ended;
  if (in_step_) lag_ += std::max(Seconds(), std::min(arrived, ended) - clock_);
  clock_ = std::max(clock_, ended);
}

}  // namespace fourfold::tensor
