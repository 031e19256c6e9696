// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/mpi/mpi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <sched.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <utility>

#include <mpi.h>

#include "fourfold/base/check.hpp"

namespace fourfold::comm::mpi {

namespace {

constexpr int kNameSize = 64;
/// How often a poll looks for control messages. Each look costs one run of MPI's own progress.
constexpr Seconds kControlLook{0.005};

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return text.data();
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw CommError(concat(call, " failed: ", error_text(code)));
}

void sleep_for(long nanoseconds) {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}

/// The time that MPI and mpirun have to end this process before it exits by itself. If the network
/// is cut, they cannot end it.
constexpr std::chrono::seconds kTimeToEnd{3};
/// The time that a rank that has been told of the end leaves to MPI and mpirun before it exits by
/// itself.
constexpr std::chrono::seconds kTimeToBeEnded{5};

/// Ends the process after `time`, if it still runs.
void exit_after(std::chrono::seconds time, int status) {
  std::thread([time, status] {
    std::this_thread::sleep_for(time);
    _exit(status);
  }).detach();
}

/// A duplicate of the world's communicator that returns error codes.
MPI_Comm duplicate_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() : data_(duplicate_world()), control_(duplicate_world()) {
    check_mpi(MPI_Comm_rank(data_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(data_, &size_), "MPI_Comm_size");
    read_max_tag();
    gather_hosts();
    post_control();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int rank) const override {
    return hosts_.data() + static_cast<std::ptrdiff_t>(rank) * kNameSize;
  }
  int max_tag() const override { return max_tag_; }

  Request send(std::span<const std::byte> data, int peer, int tag) override {
    Message& message = take(data.size(), peer, true);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(data.data(), message.bytes, MPI_BYTE, peer, tag, data_, &request),
              "MPI_Isend");
    return add(message, request);
  }

  Request receive(std::span<std::byte> data, int peer, int tag) override {
    Message& message = take(data.size(), peer, false);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data.data(), message.bytes, MPI_BYTE, peer, tag, data_, &request),
              "MPI_Irecv");
    return add(message, request);
  }

  void poll() override {
    if (requests_.size() > 2) return poll_together();
    // The shortest operations have two messages in flight, and here every 100 ns count. A call that
    // finds nothing runs MPI's progress, which may complete all messages. So the poll ends after
    // one such call, except for every fourth poll.
    const bool all = ++looks_ % 4 == 0;
    for (std::size_t i = 0; i < requests_.size();) {
      int done = 0;
      MPI_Status status;
      const int code = MPI_Test(&requests_[i], &done, &status);
      if (code == MPI_SUCCESS && done == 0) {
        if (!all) return;
        ++i;
        continue;
      }
      status.MPI_ERROR = code;
      finish(*messages_in_flight_[i], status);
      remove(i);
    }
  }

  bool test(Request& request) override {
    auto& message = *reinterpret_cast<Message*>(request.handle);
    if (!message.done) return false;
    request = {};
    count_completion();
    free_.push_back(&message);
    return true;
  }

  void send_control(const ControlMessage& message, int peer) override {
    control_sends_.remove_if([](ControlSend& sent) {
      int done = 0;
      return MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
    ControlSend& sent = control_sends_.emplace_back();
    sent.message = message;
    check_mpi(MPI_Isend(&sent.message, sizeof(ControlMessage), MPI_BYTE, peer, 0, control_,
                        &sent.request),
              "MPI_Isend");
  }

  std::optional<ControlMessage> receive_control() override {
    if (now() - looked_ < kControlLook) return std::nullopt;
    int done = 0;
    check_mpi(MPI_Test(&control_request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      looked_ = now();
      return std::nullopt;
    }
    const ControlMessage message = control_message_;
    post_control();
    return message;
  }

  bool needs_polling() const override { return true; }

  void idle(std::uint64_t, std::int64_t rounds) override {
    if (crowded_) {
      // A wait that has lasted long rests longer: other ranks need the cores, and what the rest
      // adds to the wait stays about a hundredth of it. The kernel adds about 50 us to each rest.
      constexpr std::int64_t kYields = 30;
      constexpr std::int64_t kShortest = 20'000;  // nanoseconds
      constexpr std::int64_t kMore = 2'000;
      constexpr std::int64_t kLongest = 500'000;
      if (rounds < kYields) {
        sched_yield();
      } else {
        sleep_for(std::min(kShortest + (rounds - kYields) * kMore, kLongest));
      }
    } else if (rounds > 1000) {
      sched_yield();
    }
  }

  void withdraw(const std::string&) override {
    // MPI writes to our buffers only inside MPI calls, and the engine makes no MPI calls after a
    // failure.
  }

  void abort(const std::string&, int status) override {
    exit_after(kTimeToEnd, status);
    MPI_Abort(MPI_COMM_WORLD, status);
  }

  void expect_end(int status) override {
    if (!std::exchange(ends_, true)) exit_after(kTimeToBeEnded, status);
  }

  void close() override {
    MPI_Cancel(&control_request_);
    MPI_Wait(&control_request_, MPI_STATUS_IGNORE);
    for (ControlSend& sent : control_sends_) MPI_Request_free(&sent.request);
    MPI_Comm_free(&control_);
    MPI_Comm_free(&data_);
    MPI_Finalize();
  }

 private:
  struct Message {
    int bytes = 0;
    int peer = 0;
    bool sent = false;
    bool done = false;
  };
  struct ControlSend {
    MPI_Request request = MPI_REQUEST_NULL;
    ControlMessage message;
  };

  void read_max_tag() {
    int* limit = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found), "MPI_Comm_get_attr");
    max_tag_ = found != 0 ? *limit : 32767;
  }

  void gather_hosts() {
    std::array<char, kNameSize> own{};
    gethostname(own.data(), own.size() - 1);
    hosts_.resize(static_cast<std::size_t>(size_) * kNameSize);
    check_mpi(MPI_Allgather(own.data(), kNameSize, MPI_CHAR, hosts_.data(), kNameSize, MPI_CHAR,
                            control_),
              "MPI_Allgather");
    int here = 0;
    for (int rank = 0; rank < size_; ++rank) here += host(rank) == own.data() ? 1 : 0;
    // The user may also have asked for this; mpirun passes the setting on.
    const char* yield = std::getenv("OMPI_MCA_mpi_yield_when_idle");
    crowded_ = here > sysconf(_SC_NPROCESSORS_ONLN) || (yield != nullptr && *yield == '1');
  }

  void post_control() {
    check_mpi(MPI_Irecv(&control_message_, sizeof(ControlMessage), MPI_BYTE, MPI_ANY_SOURCE, 0,
                        control_, &control_request_),
              "MPI_Irecv");
  }

  Request add(Message& message, MPI_Request request) {
    requests_.push_back(request);
    messages_in_flight_.push_back(&message);
    return {reinterpret_cast<std::uintptr_t>(&message)};
  }

  // This uses one call for all messages: each call that finds nothing runs MPI's own progress once,
  // which over a network is a round of system calls.
  void poll_together() {
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
    if (count <= 0) return;
    const auto found = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < found; ++i) {
      // The library need not set this field when there is no failure.
      if (code == MPI_SUCCESS) statuses_[i].MPI_ERROR = MPI_SUCCESS;
      finish(*messages_in_flight_[static_cast<std::size_t>(indices_[i])], statuses_[i]);
    }
    // Removal goes from the last to the first, so that filling a gap from the end does not move a
    // finished message.
    std::sort(indices_.begin(), indices_.begin() + count, std::greater<>());
    for (std::size_t i = 0; i < found; ++i) remove(static_cast<std::size_t>(indices_[i]));
  }

  void remove(std::size_t index) {
    requests_[index] = requests_.back();
    requests_.pop_back();
    messages_in_flight_[index] = messages_in_flight_.back();
    messages_in_flight_.pop_back();
  }

  void finish(Message& message, const MPI_Status& status) const {
    if (status.MPI_ERROR != MPI_SUCCESS) {
      throw CommError(concat("a message of ", message.bytes, " bytes between ranks ", rank_,
                             " and ", message.peer, " failed (", error_text(status.MPI_ERROR),
                             "): they issue different operations, or the peer is gone"));
    }
    if (!message.sent) {
      int bytes = 0;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      if (bytes != message.bytes) {
        throw CommError(concat("rank ", message.peer, " sent ", bytes, " bytes where rank ", rank_,
                               " expects ", message.bytes, ": they issue different operations"));
      }
    }
    message.done = true;
  }

  Message& take(std::size_t bytes, int peer, bool sent) {
    FOURFOLD_CHECK(bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
    Message* message = nullptr;
    if (free_.empty()) {
      message = &messages_.emplace_back();
    } else {
      message = free_.back();
      free_.pop_back();
    }
    message->bytes = static_cast<int>(bytes);
    message->peer = peer;
    message->sent = sent;
    message->done = false;
    return *message;
  }

  MPI_Comm data_;
  MPI_Comm control_;
  int rank_ = 0;
  int size_ = 1;
  int max_tag_ = 0;
  std::vector<char> hosts_;  // kNameSize characters for each rank
  bool crowded_ = false;     // whether there are more ranks than cores on this host
  std::deque<Message> messages_;
  std::vector<MPI_Request> requests_;  // in flight
  std::vector<Message*> messages_in_flight_;
  std::vector<int> indices_;  // the indices in requests_ of those that are done, and their statuses
  std::vector<MPI_Status> statuses_;
  std::vector<Message*> free_;
  ControlMessage control_message_;
  MPI_Request control_request_ = MPI_REQUEST_NULL;
  std::list<ControlSend> control_sends_;
  Seconds looked_;
  int looks_ = 0;  // the number of polls with one or two messages
  bool ends_ = false;
};

}  // namespace

World open(const Options& options) {
  int provided = 0;
  // The engine's lock makes sure that only one thread at a time calls MPI.
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw CommError("this MPI library does not support calls from several threads");
  }
  auto transport = std::make_unique<MpiTransport>();
  set_this_rank(transport->rank());
  return {std::move(transport), options};
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  // Some libraries return a whole page. The first line or sentence is enough.
  const std::string_view all(text.data());
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

}  // namespace fourfold::comm::mpi
