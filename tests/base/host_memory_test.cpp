// The memory of a host: the machine's, and what control groups leave of it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/host_memory.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;

/// A folder with proc and sys of a host that does not exist.
class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() : root_(fs::temp_directory_path() / concat("fourfold-host-", getpid())) {
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    800 kB\n");
  }
  ~HostMemoryTest() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  HostMemory read() const { return host_memory(root_.string()); }

 private:
  fs::path root_;
};

TEST_F(HostMemoryTest, IsThatOfTheMachine) {
  EXPECT_EQ(read().total, Bytes(1000 * 1024));
  EXPECT_EQ(read().available, Bytes(800 * 1024));
}

TEST_F(HostMemoryTest, IsLimitedByGroupsOfVersion1) {
  write("proc/self/cgroup", "5:devices:/\n4:cpu,memory:/jobs/one\n0::/\n");
  write("sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().total, Bytes(1000 * 1024)) << "no limit";
  write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "500000\n");
  EXPECT_EQ(read().total, Bytes(500000)) << "of the group around it";
  write("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "200000\n");
  write("sys/fs/cgroup/memory/jobs/memory.stat", "cache 7\ntotal_inactive_file 50000\n");
  EXPECT_EQ(read().total, Bytes(500000));
  EXPECT_EQ(read().available, Bytes(350000)) << "what is cached can be had";
}

TEST_F(HostMemoryTest, IsLimitedByGroupsOfVersion2) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/memory.max", "300000\n");
  write("sys/fs/cgroup/a/memory.current", "400000\n");
  EXPECT_EQ(read().total, Bytes(300000));
  EXPECT_EQ(read().available, Bytes(0));
}

TEST_F(HostMemoryTest, IsLimitedByTheGroupOfAContainer) {
  // The path is that of the world outside; inside, the group is at the root.
  write("proc/self/cgroup", "4:memory:/docker/123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "600000\n");
  EXPECT_EQ(read().total, Bytes(600000));
}

TEST_F(HostMemoryTest, HasNoLimitWhereNothingCanBeRead) {
  const HostMemory nothing = host_memory("/no/such/folder");
  EXPECT_EQ(nothing.total.value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(nothing.available, nothing.total);
  write("proc/self/cgroup", "nonsense\n0:\n:/\n::\n");
  EXPECT_EQ(read().total, Bytes(1000 * 1024));
}

TEST(HostMemory, OfThisMachine) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.available, Bytes(1 << 20));
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace fourfold::test
