// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/state_writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

#include <ATen/ops/from_blob.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/formats/safetensors_header.hpp"
#include "fourfold/formats/safetensors_writer.hpp"

namespace fourfold::checkpoint {

namespace {

/// Tensors are copied in pieces of about this size, so that the disk is busy from the beginning.
constexpr std::int64_t kPiece = std::int64_t{4} << 20;

std::vector<formats::TensorSpec> specs_of(const std::vector<StateBlock>& blocks) {
  std::vector<formats::TensorSpec> specs;
  for (const StateBlock& block : blocks) {
    specs.push_back({block.entry(), dtype_of(block.data.scalar_type()), block.data.sizes().vec()});
  }
  return specs;
}

/// The part of a core that writing takes where nobody waits for it: steps are longer by no more,
/// even if the rank has no core to spare.
constexpr double kShare = 0.04;

/// The processor time of this thread.
Seconds used_here() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return Seconds(static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec));
}

/// Large pieces ask for large pages: training stands still for the copy, and to make a page of 4
/// KiB for the first time takes several times as long as to fill it.
void* new_bytes(std::size_t size) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  const std::size_t whole = (size + kLargePage - 1) / kLargePage * kLargePage;
  const bool large = size >= kLargePage;
  void* bytes = large ? std::aligned_alloc(kLargePage, whole) : std::malloc(std::max(size, 1UL));
  if (bytes == nullptr) throw std::bad_alloc();
  if (large) static_cast<void>(madvise(bytes, whole, MADV_HUGEPAGE));  // a wish
  return bytes;
}

}  // namespace

StateWriter::StateWriter(std::filesystem::path path, const std::vector<StateBlock>& blocks,
                         Bytes staging)
    : path_(std::move(path)), staging_(static_cast<std::size_t>(staging.value())) {
  const std::vector<formats::TensorSpec> specs = specs_of(blocks);
  std::map<std::string, const StateBlock*> by_entry;
  for (const StateBlock& block : blocks) by_entry[block.entry()] = &block;
  thread_ = std::thread([this, specs] { run(specs); });
  try {
    for (const formats::TensorEntry& entry : formats::lay_out(specs)) {
      stage(by_entry.at(entry.name)->data);
    }
  } catch (...) {
    complete();  // the file stays incomplete, and is not kept
    wait();
    throw;
  }
  complete();
}

void StateWriter::complete() {
  const std::lock_guard lock(mutex_);
  complete_ = true;
  changed_.notify_all();
}

/// A rank that fails must not write a state of minutes before it can say why.
StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    staged_.clear();
    changed_.notify_all();
  }
  wait();
}

void StateWriter::wait() {
  {
    const std::lock_guard lock(mutex_);
    hurried_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void StateWriter::stage(const at::Tensor& data) {
  const std::int64_t rows = data.size(0);
  const std::int64_t row =
      static_cast<std::int64_t>(data.nbytes()) / std::max<std::int64_t>(1, rows);
  const std::int64_t at_once = std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, row));
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const at::Tensor some = data.narrow(0, first, std::min(at_once, rows - first));
    Piece piece{Memory(static_cast<std::byte*>(new_bytes(some.nbytes()))), some.nbytes()};
    at::from_blob(piece.bytes.get(), some.sizes(), some.scalar_type()).copy_(some);
    push(std::move(piece));
  }
}

void StateWriter::push(Piece piece) {
  std::unique_lock lock(mutex_);
  if (staged_bytes_ > 0 && staged_bytes_ + piece.size > staging_) {
    hurried_ = true;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] {
    return failed_ || staged_bytes_ == 0 || staged_bytes_ + piece.size <= staging_;
  });
  if (failed_) return;
  staged_bytes_ += piece.size;
  staged_.push_back(std::move(piece));
  changed_.notify_all();
}

/// Takes the next piece; false when there is none.
bool StateWriter::next(Piece& piece) {
  std::unique_lock lock(mutex_);
  staged_bytes_ -= piece.size;
  piece = {};
  changed_.notify_all();
  changed_.wait(lock, [&] { return complete_ || cancelled_ || !staged_.empty(); });
  if (staged_.empty()) return false;
  piece = std::move(staged_.front());
  staged_.pop_front();
  return true;
}

/// Sleeps until the thread has taken no more than its share since `begin`, unless somebody waits
/// for it.
void StateWriter::rest(Seconds begin) {
  const Seconds until = begin + (1 / kShare) * used_here();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>((until - now()).value()),
                    [&] { return hurried_ || cancelled_; });
}

bool StateWriter::is_cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void StateWriter::write(std::vector<formats::TensorSpec> specs) {
  const std::filesystem::path folder = path_.parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError(concat(folder.string(), " cannot be made: ", error.message()));
  formats::SafetensorsWriter writer(path_, std::move(specs), {}, formats::Cache::kBypass);
  const Seconds begin = now();
  for (Piece piece; next(piece); rest(begin)) {
    writer.write(std::span(piece.bytes.get(), piece.size));
  }
  if (is_cancelled()) return;
  writer.commit();
  size_ = writer.size();
  checksum_ = writer.checksum();
}

void StateWriter::run(std::vector<formats::TensorSpec> specs) {
  // Where a rank has no core to spare, a checkpoint may take longer, but steps should not.
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowest);
  try {
    write(std::move(specs));
  } catch (const std::exception& problem) {
    const std::lock_guard lock(mutex_);
    failure_ = problem.what();
    failed_ = true;
    staged_.clear();
    changed_.notify_all();
  }
  ended_ = true;
}

}  // namespace fourfold::checkpoint
