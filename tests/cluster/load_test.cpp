// Clusters as files: those that come with the program, reading back what was written, and every way
// to get a file wrong.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/load.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/cluster/keys.hpp"
#include "fourfold/cluster/write.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using cluster::GroupShape;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Load : public testing::Test {
 protected:
  Load() { std::filesystem::create_directories(folder_); }
  ~Load() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// The small cluster's file, with a piece of it replaced.
  Cluster load(const std::string& piece = "", const std::string& by = "") const {
    std::string text = cluster::to_toml(small_cluster());
    const auto at = text.find(piece);
    EXPECT_NE(at, std::string::npos) << piece;
    write_text(path("c.toml"), text.replace(at, piece.size(), by));
    return cluster::load(path("c.toml"));
  }

  /// The line that refuses a name or path, without the folder.
  std::string refusal_of(const std::string& name_or_path) const {
    try {
      cluster::load(name_or_path);
    } catch (const ConfigError& error) {
      std::string line = error.what();
      const std::string prefix = folder_.string() + "/";
      for (auto at = line.find(prefix); at != std::string::npos; at = line.find(prefix)) {
        line.erase(at, prefix.size());
      }
      return line;
    }
    return "accepted";
  }
  std::string refusal(const std::string& piece, const std::string& by) const {
    try {
      load(piece, by);
      return "accepted";
    } catch (const ConfigError&) {
      return refusal_of(path("c.toml"));
    }
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / concat("fourfold_clusters_", getpid());
};

TEST_F(Load, AllClustersOfTheProgram) {
  const std::vector<std::string> expected = {"alps",     "dgx-h100",   "frontier",
                                             "longhorn", "perlmutter", "polaris"};
  EXPECT_EQ(cluster::known_clusters(), expected);
  for (const std::string& name : expected) {
    const Cluster cluster = cluster::load(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_FALSE(cluster.about.empty());
    EXPECT_FALSE(cluster.source.empty());
    EXPECT_FALSE(cluster.price_per_gpu_hour) << "no price is known";
    EXPECT_LE(cluster.device.f64, cluster.device.bf16);
    // Sane speeds for all groups of a power of two.
    for (int per_host = 1; per_host <= cluster.gpus_per_host; per_host *= 2) {
      for (int hosts = 1; hosts <= 64; hosts *= 4) {
        const GroupShape shape{per_host * hosts, per_host, cluster.gpus_per_host / per_host, 1};
        if (shape.members == 1) continue;
        const cluster::Link link = cluster.link(shape);
        EXPECT_GE(link.bandwidth, BytesPerSecond(1e9)) << name << ": " << shape;
        EXPECT_LE(link.bandwidth, BytesPerSecond(450e9)) << name << ": " << shape;
        EXPECT_GT(link.latency, Seconds(1e-6)) << name << ": " << shape;
        EXPECT_GT(link.inside_load + link.nic_load, 0) << name << ": " << shape;
      }
    }
  }
}

TEST_F(Load, MeasuredTablesOfTheAuthors) {
  // GB/s by (size of the inner groups, size of the group), as published.
  const auto speed = [](const Cluster& cluster, int inner, int size) {
    return cluster.link({size, size, cluster.gpus_per_host / size, inner}).bandwidth.value() / 1e9;
  };
  const Cluster perlmutter = cluster::load("perlmutter");
  EXPECT_DOUBLE_EQ(speed(perlmutter, 1, 2), 76);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 2, 2), 76);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 1, 4), 225);
  const Cluster frontier = cluster::load("frontier");
  EXPECT_DOUBLE_EQ(speed(frontier, 1, 2), 129);
  EXPECT_DOUBLE_EQ(speed(frontier, 1, 4), 52);
  EXPECT_DOUBLE_EQ(speed(frontier, 1, 8), 135);
  EXPECT_DOUBLE_EQ(speed(frontier, 2, 2), 50);
  EXPECT_DOUBLE_EQ(speed(frontier, 2, 4), 72);
  EXPECT_DOUBLE_EQ(speed(frontier, 4, 2), 36);
  // Between hosts, with 1, 2, 4 and 8 siblings.
  EXPECT_DOUBLE_EQ(perlmutter.link({64, 4, 1, 1}).bandwidth.value(), 80e9);
  EXPECT_DOUBLE_EQ(perlmutter.link({64, 2, 2, 2}).bandwidth.value(), 40e9);
  EXPECT_DOUBLE_EQ(perlmutter.link({64, 1, 4, 1}).bandwidth.value(), 20e9);
  EXPECT_DOUBLE_EQ(frontier.link({64, 8, 1, 1}).bandwidth.value(), 40e9);
  EXPECT_DOUBLE_EQ(frontier.link({64, 1, 8, 1}).bandwidth.value(), 5e9);
}

TEST_F(Load, ReadsBackWhatWasWritten) {
  std::vector<Cluster> clusters = {small_cluster()};
  for (const std::string& name : cluster::known_clusters()) {
    clusters.push_back(cluster::load(name));
  }
  clusters[0].hosts = 3;
  clusters[0].price_per_gpu_hour = 0.1;
  clusters[0].about = "a \"quoted\" text\nof two lines";
  clusters[0].device.memory = Bytes(12345678901);
  clusters[0].network.nic_bandwidth = BytesPerSecond(1e10 / 3);
  clusters[0].network.nic_latency = Seconds(1e-6 / 3);
  clusters[0].network.library = cluster::Library::kFourfold;
  clusters[0].network.algorithms = {cluster::NcclAlgorithm::kTwoLevel,
                                    cluster::NcclAlgorithm::kRing};
  clusters[0].network.measured = {
      {{8, 2, 2, 2}, Seconds(1e-5 / 7), BytesPerSecond(1e9 / 7)},
      {{4, 4, 1, 1}, Seconds(1e-6), BytesPerSecond(1e9), Seconds(3e-6)}};
  for (const Cluster& cluster : clusters) {
    cluster::write(cluster, path("written.toml"));
    EXPECT_EQ(cluster::load(path("written.toml")), cluster) << cluster.name;
  }
}

TEST_F(Load, DoesNotWriteWhatCannotBeRead) {
  Cluster cluster = small_cluster();
  cluster.network.nic_bandwidth = BytesPerSecond(-1);
  EXPECT_THROW(cluster::write(cluster, path("written.toml")), ConfigError);
  cluster = small_cluster();
  for (int members = 2; members < 1000; ++members) {
    cluster.network.measured.push_back({{members, 1, 4, 1}, Seconds(1e-6), BytesPerSecond(1e9)});
  }
  EXPECT_THROW(cluster::write(cluster, path("written.toml")), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(path("written.toml")));
}

TEST_F(Load, UnknownNames) {
  const std::string known =
      "known clusters: alps, dgx-h100, frontier, longhorn, perlmutter, polaris; or give the path "
      "of a file, such as ./my-cluster.toml";
  EXPECT_EQ(refusal_of("perlmuter"),
            "unknown cluster \"perlmuter\"; did you mean perlmutter? " + known);
  EXPECT_EQ(refusal_of("mine"), "unknown cluster \"mine\"; " + known);
  EXPECT_EQ(refusal_of(""), "unknown cluster \"\"; " + known);
  EXPECT_EQ(refusal_of(path("no.toml")), "\"no.toml\" cannot be read: No such file or directory");
  EXPECT_EQ(refusal_of("no-such-file.toml"),
            "\"no-such-file.toml\" cannot be read: No such file or directory");
  EXPECT_EQ(refusal_of(path("")), "\"\" is not a file; give a description of a cluster in TOML");
}

TEST_F(Load, MissingAndUnknownKeys) {
  EXPECT_EQ(load("", "").name, "small");
  EXPECT_EQ(refusal("nics = 2\n", ""),
            "c.toml: network.nics is missing; it must be a whole number of at least 1");
  EXPECT_EQ(refusal("[device]\n", "[devize]\n"),
            "c.toml:7: unknown section [devize]; did you mean device?");
  EXPECT_EQ(refusal("nics = 2\n", "nics = 2\nnic_bandwith = 1\n"),
            "c.toml:32: unknown key network.nic_bandwith; did you mean nic_bandwidth?");
  EXPECT_EQ(refusal("name = \"small\"\n", "name = \"small\"\ncolour = 1\n"),
            "c.toml:3: unknown key cluster.colour; [cluster] has name, about, source, "
            "gpus_per_host, hosts, price_per_gpu_hour");
  EXPECT_EQ(refusal("[cluster]\n", "speed = 1\n[cluster]\n"),
            "c.toml:1: key speed stands outside of any section; the sections are [cluster], "
            "[device], [network]");
  write_text(path("c.toml"), "network = 3\n");
  EXPECT_EQ(refusal_of(path("c.toml")),
            "c.toml:1: network must be a section: [network] with its keys below");
  EXPECT_EQ(refusal("nics = 2", "nics = two"),
            "c.toml:31: 'nics = two' is not valid TOML: Error while parsing boolean: expected "
            "'true', saw 'tw' (text must stand in quotes)");
}

TEST_F(Load, ValuesThatAreNotAllowed) {
  EXPECT_EQ(refusal("nic_bandwidth = 2e+10", "nic_bandwidth = -2e10"),
            "c.toml:32: network.nic_bandwidth = -2e+10 must be a number from 1000 to 1e+18, in "
            "bytes per second, such as 25e9");
  EXPECT_NE(refusal("nic_bandwidth = 2e+10", "nic_bandwidth = 25"), "accepted") << "GB/s";
  EXPECT_NE(refusal("nic_latency = 5e-06", "nic_latency = 5"), "accepted") << "microseconds";
  EXPECT_NE(refusal("bf16 = 1e+14", "bf16 = 312"), "accepted") << "TFLOP/s";
  EXPECT_EQ(refusal("usable_memory = 0.5", "usable_memory = 0.0"),
            "c.toml:10: device.usable_memory = 0.0 must be a number above 0 and at most 1");
  EXPECT_NE(refusal("nic_usable = 0.5", "nic_usable = nan"), "accepted");
  EXPECT_NE(refusal("memory_gib = 16.0", "memory_gib = \"16\""), "accepted");
  EXPECT_NE(refusal("nics = 2", "nics = 0"), "accepted");
  EXPECT_NE(refusal("slowdown = 1.0", "slowdown = 0.9"), "accepted");
  EXPECT_EQ(refusal("topology = \"switch\"", "topology = \"torus\""),
            "c.toml:27: network.topology = \"torus\" must be \"mesh\" or \"switch\"");
  for (const char* list : {"[]", "[\"tree\"]", "[\"ring\", \"ring\"]", "[\"star\"]", "\"ring\""}) {
    EXPECT_NE(refusal("[\"ring\", \"tree\"]", list), "accepted") << list;
  }
  for (const char* table : {"[]", "[[0, 0.5]]", "[[64, 1.5]]", "[[64, 0.5], [64, 0.6]]",
                            "[[64, 0.5, 1]]", "[64, 0.5]", "[[1.5, 0.5]]", "1"}) {
    EXPECT_NE(refusal("[\n  [64, 0.2],\n  [1024, 0.8],\n]", table), "accepted") << table;
  }
  const std::string last = "nic_latency = 5e-06\n";
  for (const char* table :
       {"[[2, 2, 2, 1, 1e-6]]", "[[1, 1, 1, 1, 1e-6, 1e9]]", "[[2, 4, 1, 1, 1e-6, 1e9]]",
        "[[2, 2, 2, 1, -1e-6, 1e9]]", "[[2, 2, 2, 1, 1e-6, -1e9]]", "[[2, 2, 2, 1, 1e-6, 100]]",
        "[[2, 2, 2, 1, 1e-6, 1e9], [2, 2, 2, 1, 2e-6, 1e9]]", "[[8, 8, 1, 1, 1e-6, 1e9]]",
        "[[2, 2, 2, 2, 1e-6, 1e9, -1e-6]]", "[[2, 2, 2, 2, 1e-6, 1e9, 1e-6, 1]]"}) {
    EXPECT_NE(refusal(last, last + "measured = " + table + "\n"), "accepted") << table;
  }
  EXPECT_EQ(refusal(last, last + "measured = [[2, 2, 2, 2, 1e-6, 1e9]]\n"), "accepted");
  EXPECT_EQ(refusal(last, last + "measured = [[2, 2, 2, 2, 1e-6, 1e9, 2e-6]]\n"), "accepted");
  EXPECT_EQ(refusal(last, last + "measured = [[8, 8, 1, 1, 1e-6, 1e9]]\n"),
            "c.toml: network.measured has a group with 8 members on a host, but "
            "cluster.gpus_per_host is 4");
}

TEST(Keys, AreInTheDocumentation) {
  EXPECT_NE(text_of(CLUSTERS_PAGE).find(cluster::key_table_markdown()), std::string::npos)
      << "docs/cluster-files.md should contain:\n"
      << cluster::key_table_markdown();
  for (const std::string& name : cluster::known_clusters()) {
    EXPECT_NE(text_of(CLUSTERS_PAGE).find(concat("| `", name, "` |")), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace fourfold::test
