// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/flight_recorder.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/flight_file.hpp"

namespace fourfold::comm {

namespace {

double unix_seconds() {
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  return since.count();
}

template <std::size_t kSize>
void put(std::array<char, kSize>& to, std::string_view text) {
  const std::size_t count = std::min(text.size(), kSize - 1);
  std::copy_n(text.begin(), count, to.begin());
  to[count] = '\0';
}

FlightFile* map_file(const std::filesystem::path& path) {
  const auto fail = [&] {
    throw IoError(concat(path.string(), " cannot be written: ", std::strerror(errno)));
  };
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  // A new file: a process that still has the old one must not write to this one.
  unlink(path.c_str());
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) fail();
  // The space is reserved: a store to a page that a full disk has no room for ends the process.
  const int missing = posix_fallocate(descriptor, 0, sizeof(FlightFile));
  void* memory = missing != 0 ? MAP_FAILED
                              : mmap(nullptr, sizeof(FlightFile), PROT_READ | PROT_WRITE,
                                     MAP_SHARED, descriptor, 0);
  if (missing != 0) errno = missing;
  if (memory == MAP_FAILED) {
    const int why = errno;
    close(descriptor);
    unlink(path.c_str());
    errno = why;
    fail();
  }
  close(descriptor);
  return static_cast<FlightFile*>(memory);
}

FlightFile::Operation& slot(FlightFile& file, std::int64_t number) {
  return file.operations[static_cast<std::size_t>(number) % file.operations.size()];
}

}  // namespace

FlightRecorder::FlightRecorder(World& world, const std::filesystem::path& path)
    : file_(map_file(path)), offset_(unix_seconds() - now().value()) {
  static_assert(std::tuple_size_v<decltype(FlightFile::operations)> == kKept);
  file_->rank = world.rank();
  file_->ranks = world.size();
  put(file_->host, world.host(world.rank()));
  file_->waiting_for = -1;
  file_->silent.fill(-1);
  for (FlightFile::Operation& operation : file_->operations) operation.number = -1;
  file_->magic = kFlightMagic;
  seen();
  observation_ = world.observe(*this);
}

FlightRecorder::~FlightRecorder() {
  observation_.stop();
  file_->left = 1;
  munmap(file_, sizeof(FlightFile));
}

void FlightRecorder::seen() {
  file_->seen = now().value() + offset_;
}

void FlightRecorder::begin_step(std::int64_t number) {
  file_->step = number;
  seen();
}

void FlightRecorder::work_began(std::string_view what) {
  works_.emplace_back(what);
  put(file_->doing, works_.back());
  seen();
}

/// The recorder may have been made while a work was under way.
void FlightRecorder::work_ended() {
  if (!works_.empty()) works_.pop_back();
  put(file_->doing, works_.empty() ? "" : works_.back());
  seen();
}

void FlightRecorder::computed(const Computed&) {
  seen();
}

void FlightRecorder::add_lane(const Observed& operation) {
  const auto next = static_cast<std::size_t>(file_->lanes_used);
  if (next == file_->lanes.size()) return;  // operations of further lanes have no group
  FlightFile::Lane& lane = file_->lanes[next];
  lane.number = operation.lane;
  lane.size = operation.group.size();
  const auto known = std::min(operation.group.members.size(), lane.members.size());
  std::copy_n(operation.group.members.begin(), known, lane.members.begin());
  put(lane.axes, grid::to_string(operation.group.axes));
  ++file_->lanes_used;
}

void FlightRecorder::issued(const Observed& operation, std::string_view layer) {
  const auto [entry, is_new] = in_lane_.try_emplace(operation.lane, 0);
  if (is_new) add_lane(operation);
  FlightFile::Operation& to = slot(*file_, operation.number);
  to.number = -1;  // until it is complete
  to.in_lane = entry->second++;
  to.count = operation.collective.count;
  to.lane = operation.lane;
  to.root = operation.collective.root;
  to.op = static_cast<std::uint8_t>(operation.collective.op);
  to.dtype = static_cast<std::uint8_t>(operation.collective.dtype);
  put(to.layer, layer);
  seen();
  to.issued = file_->seen;
  to.ended = 0;
  to.waited = 0;
  to.number = operation.number;
}

void FlightRecorder::ended(const Observed& operation, const Run&) {
  const std::lock_guard lock(mutex_);
  FlightFile::Operation& of = slot(*file_, operation.number);
  if (of.number == operation.number) of.ended = now().value() + offset_;
  if (awaited_.erase(operation.number) > 0) update_waiting();
}

void FlightRecorder::awaited(std::int64_t number) {
  seen();
  const std::lock_guard lock(mutex_);
  FlightFile::Operation& of = slot(*file_, number);
  const bool known = of.number == number;
  if (known) of.waited = file_->seen;
  if (known && of.ended == 0) awaited_.insert(number);
  file_->waiting_for = awaited_.empty() ? number : *awaited_.begin();
}

void FlightRecorder::waited(const Observed& operation, const std::optional<Blocked>&) {
  seen();
  const std::lock_guard lock(mutex_);
  awaited_.erase(operation.number);
  update_waiting();
}

/// The rank waits for the first of these operations.
void FlightRecorder::update_waiting() {
  file_->waiting_for = awaited_.empty() ? -1 : *awaited_.begin();
}

void FlightRecorder::gave_up(const std::vector<int>& silent) {
  const std::size_t known = std::min(silent.size(), file_->silent.size());
  std::copy_n(silent.begin(), known, file_->silent.begin());
  seen();
}

}  // namespace fourfold::comm
