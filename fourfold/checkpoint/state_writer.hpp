// Writes a rank's part of a checkpoint while the rank goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/checkpoint/state.hpp"

namespace fourfold::checkpoint {

/// Copies blocks of the state into a staging buffer, which a thread of its own writes to a file:
/// with a small part of a core, unless somebody waits for it.
class StateWriter {
 public:
  /// Returns when everything is copied, so that the state may change. It waits for the disk only if
  /// more than `staging` bytes are copied and not yet written. The file appears when it is
  /// complete; its folder is made if it does not exist.
  StateWriter(std::filesystem::path path, const std::vector<StateBlock>& blocks, Bytes staging);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  /// What is not written by now is dropped, and no file appears.
  ~StateWriter();

  /// Whether the file is complete, or cannot be written.
  bool ended() const { return ended_; }
  /// Waits until it has ended.
  void wait();

  // These are known once it has ended.
  std::int64_t size() const { return size_; }
  std::uint64_t checksum() const { return checksum_; }
  /// Why the file cannot be written; empty if all is well.
  const std::string& failure() const { return failure_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;

  /// Bytes that are copied and not yet written.
  struct Piece {
    Memory bytes;
    std::size_t size = 0;
  };

  void stage(const at::Tensor& data);
  void push(Piece piece);
  void complete();
  void run(std::vector<formats::TensorSpec> specs);
  void write(std::vector<formats::TensorSpec> specs);
  bool next(Piece& piece);
  void rest(Seconds begin);
  bool is_cancelled();

  std::filesystem::path path_;
  std::size_t staging_;
  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<Piece> staged_;
  std::size_t staged_bytes_ = 0;  // with the piece that is being written
  bool complete_ = false;         // nothing more will be staged
  bool failed_ = false;           // nothing more will be written
  bool cancelled_ = false;        // nobody waits for the file
  bool hurried_ = false;          // training waits for it
  std::atomic<bool> ended_{false};
  std::int64_t size_ = 0;
  std::uint64_t checksum_ = 0;
  std::string failure_;
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace fourfold::checkpoint
