// The communicators of NCCL that one rank has, made when they are first needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "fourfold/comm/device.hpp"
#include "fourfold/comm/lanes.hpp"
#include "fourfold/comm/nccl/nccl.hpp"

namespace fourfold::comm::nccl {

/// Throws CommError if `result`, of the function of CUDA or of NCCL that is named, is an error.
void check_cuda(const Api& api, int result, const char* function);
void check_nccl(const Api& api, int result, const char* function);

/// A lane has a communicator of all members for its collectives, and one of two members for what
/// one of them sends to the other. It is made when one member needs it: the first of its members
/// makes an id and invites the others, whatever they are doing, and each of them joins on a thread
/// of its own. So ranks may need communicators in different orders. A thread whose call of the
/// library never returns is left behind, with what it uses: this lives as long as such a thread.
class Communicators : public std::enable_shared_from_this<Communicators> {
 public:
  /// `api` must outlive this, and `host` must live until `close`.
  Communicators(const Api& api, DeviceHost& host, const Options& options);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() = default;

  /// The last call. Destroys the communicators. Unless they were aborted, other members must do so,
  /// too; where they do not in time, the communicators are aborted.
  void close();
  /// Destroys the communicators, as all ranks do now; they are made again when they are needed.
  /// Nothing may be under way. Throws CommError where other members do not destroy theirs in time.
  void release();

  void add_lane(const Lane& lane);
  void invited(const Invitation& invitation);

  /// The communicator of the lane's collectives, where ranks have their index in the group. Waits
  /// for the other members when it is needed first.
  Comm of_group(const Lane& lane) { return of(lane, -1, -1); }
  /// The communicator of what one member sends to the other. The sender is rank 0, the other one 1.
  Comm of_pair(const Lane& lane, int from, int to) { return of(lane, from, to); }

  /// Calls `issue` unless the communicators have been aborted. Throws CommError if they have been.
  /// They are not aborted during the call, unless it does not return.
  void guarded(const std::function<void()>& issue);
  /// Whether the calls to the communicator so far have happened. Throws CommError if one failed, or
  /// if the communicators have been aborted.
  bool settled(Comm comm);

  /// What went wrong in a communicator; empty: nothing.
  std::string error();
  /// Makes all kernels give up, and all that waits here.
  void abort();

 private:
  using Key = std::tuple<int, int, int>;  // lane, from, to
  struct Entry {
    std::vector<int> members;  ///< ranks of the world
    int index = 0;             ///< of this rank
    int generation = 0;
    bool asked = false;    ///< the owner has been asked for an id
    bool started = false;  ///< `join` has been started
    bool has_id = false;
    UniqueId id{};
    Comm comm = nullptr;  ///< may be under way until `ready`
    std::atomic<bool> ready{false};
    std::string error;
    std::thread join;  ///< joins the communicator
  };

  using EntryPtr = std::shared_ptr<Entry>;
  using Entries = std::map<Key, EntryPtr>;

  Comm of(const Lane& lane, int from, int to);
  EntryPtr entry(const Lane& lane, int from, int to);
  void start(const Key& key, const EntryPtr& entry);
  void join(const Key& key, Entry& entry);
  void invite(const Key& key, const Entry& entry, const UniqueId& id);
  void take_up(const Lane& lane, const Invitation& invitation);
  void take_up_early();
  void throw_if_aborted() const;
  std::unique_lock<std::mutex> lock_calls();
  bool end(const Entries& entries, Seconds until);
  bool finalize(const Entries& entries);
  bool finalized(const Entries& entries);

  const Api* api_;
  int rank_;
  int device_;
  int max_ctas_;
  Seconds farewell_;
  std::atomic<bool> aborted_{false};
  std::mutex host_mutex_;   // guards `host_` against its end
  DeviceHost* host_;        // null: closed
  std::mutex abort_mutex_;  // held while communicators are aborted, or destroyed
  bool abort_done_ = false;

  std::mutex call_mutex_;  // held during a call to a communicator, and when `aborted_` changes
  std::mutex mutex_;       // guards everything below; nobody calls the host side under it
  std::map<int, const Lane*> lanes_;
  int generation_ = 0;             // how often `release` was called, the same on all ranks
  std::vector<Invitation> early_;  // for lanes and generations that this rank has not made yet
  Entries entries_;
  Entries ending_;  // those that are being destroyed; meanwhile no others are made
};

}  // namespace fourfold::comm::nccl
