// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/mpi/start_watch.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "fourfold/base/text.hpp"

namespace fourfold::comm::mpi {

namespace {

/// How much longer the other ranks wait, so that the first rank ends the job.
constexpr Seconds kTimeForFirst{5};

/// The number that the launcher gave this rank, needed before MPI is ready. -1 when it is not
/// known.
int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(name);
    const auto rank = text != nullptr ? parse_int(text) : std::nullopt;
    if (rank) return static_cast<int>(*rank);
  }
  return -1;
}

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

std::string line_after(Seconds waited, Seconds deadline) {
  return concat("the ranks have not found each other after ", waited,
                ". If they run on several hosts, Open MPI may have taken a network interface that "
                "does not lead to the others; ",
                this_host(), " has ", interfaces(),
                ". Name the right one in the environment of mpirun or srun, for example "
                "OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0. "
                "Without a change the job ends after ",
                deadline);
}

}  // namespace

std::string interfaces() {
  std::vector<std::string> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "no interfaces that it tells";
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool counts = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!counts) continue;
    std::array<char, INET_ADDRSTRLEN> address{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr,
              address.data(), address.size());
    found.push_back(concat(one->ifa_name, " ", address.data()));
  }
  freeifaddrs(all);
  return found.empty() ? "no interface but its own loop" : join(found, ", ");
}

StartWatch::StartWatch(const Report& report, const Options& options)
    : thread_([this, &report, &options] { watch(report, options); }) {}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    joined_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool StartWatch::joined_within(Seconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(time.value()),
                           [this] { return joined_; });
}

void StartWatch::watch(const Report& report, const Options& options) {
  // A short deadline is for waits, not for starting processes on a machine that may be busy.
  const Seconds end = std::max(options.deadline.value_or(kDeadline), options.start_time);
  const bool first = launched_rank() <= 0;
  if (joined_within(options.start_time)) return;
  if (first) report(line_after(options.start_time, end));
  if (joined_within(end - options.start_time + (first ? Seconds() : kTimeForFirst))) return;
  _exit(1);
}

}  // namespace fourfold::comm::mpi
