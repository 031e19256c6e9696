// What Open MPI's own monitoring says that was sent equals our counters, for every operation.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

#include "tests/support/process.hpp"

namespace fourfold::test {
namespace {

struct Sent {
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  bool operator==(const Sent&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.bytes << " B in " << sent.messages << " messages";
}

/// The file has a line "E <from> <to> <n> bytes <n> msgs sent ..." for what the program (and not
/// the library by itself) has sent to each peer.
Sent monitored(const std::filesystem::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  Sent sum;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind, unit;
    int from = 0, to = 0;
    Sent sent;
    if (words >> kind >> from >> to >> sent.bytes >> unit >> sent.messages && kind == "E") {
      sum.bytes += sent.bytes;
      sum.messages += sent.messages;
    }
  }
  return sum;
}

class MpiWire : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Operations, MpiWire,
                         testing::Combine(testing::Values("all_reduce", "all_gather",
                                                          "reduce_scatter", "broadcast", "reduce",
                                                          "send", "barrier"),
                                          testing::Values(2, 5, 9)));

TEST_P(MpiWire, LibraryCountsWhatWeCount) {
  const auto& [op, ranks] = GetParam();
  const auto folder = std::filesystem::temp_directory_path() / concat("fourfold-wire-", getpid());
  std::filesystem::create_directories(folder);
  const Outcome outcome =
      run_program({MPIEXEC,
                   "--oversubscribe",
                   "--bind-to",
                   "none",
                   "--mca",
                   "mpi_yield_when_idle",
                   "1",
                   "--mca",
                   "pml_monitoring_enable",
                   "2",
                   "--mca",
                   "pml_monitoring_enable_output",
                   "3",
                   "--mca",
                   "pml_monitoring_filename",
                   (folder / "sent").string(),
                   "-np",
                   std::to_string(ranks),
                   WIRE_PROGRAM,
                   op},
                  {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto printed = lines(outcome.out);
  EXPECT_EQ(printed.size(), static_cast<std::size_t>(ranks)) << outcome.out;
  std::int64_t total = 0;
  for (const std::string& line : printed) {
    std::istringstream words(line);
    int rank = -1;
    Sent counted;
    words >> rank >> counted.bytes >> counted.messages;
    EXPECT_EQ(monitored(folder / concat("sent.", rank, ".prof")), counted) << "rank " << rank;
    total += counted.messages;
  }
  EXPECT_GT(total, 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fourfold::test
