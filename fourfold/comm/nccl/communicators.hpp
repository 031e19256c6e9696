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
/// of its own. So ranks may need communicators in different orders.
class Communicators {
 public:
  /// `api` and `host` must outlive this.
  Communicators(const Api& api, DeviceHost& host, const Options& options);
  /// Destroys the communicators. Unless they were aborted, other members must do so, too; where
  /// they do not in time, the communicators are aborted.
  ~Communicators();

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
    bool asked = false;        ///< the owner has been asked for an id
    bool has_id = false;
    UniqueId id{};
    Comm comm = nullptr;  ///< may be under way until `ready`
    std::atomic<bool> ready{false};
    std::string error;
    std::thread join;  ///< joins the communicator
  };

  Comm of(const Lane& lane, int from, int to);
  Entry& entry(const Lane& lane, int from, int to);
  void start(const Key& key, Entry& entry);
  void join(const Key& key, Entry& entry);
  void throw_if_aborted() const;
  void finish_joining(Seconds end);
  void close(Seconds end);

  const Api* api_;
  DeviceHost* host_;
  int device_;
  int max_ctas_;
  Seconds farewell_;
  std::atomic<bool> aborted_{false};
  std::mutex abort_mutex_;  // held while communicators are aborted
  bool abort_done_ = false;

  std::mutex call_mutex_;  // held during a call to a communicator, and when `aborted_` changes
  std::mutex mutex_;       // guards everything below; nobody calls the host side under it
  std::map<int, const Lane*> lanes_;
  std::vector<Invitation> early_;  // for lanes that this rank has not made yet
  std::map<Key, Entry> entries_;
};

}  // namespace fourfold::comm::nccl
