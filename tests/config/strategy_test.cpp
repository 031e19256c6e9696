// Strategies by name: the sizes they have, what they fix, and what does not go together.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/strategy.hpp"

#include "fourfold/config/write.hpp"

#include "tests/config/sources.hpp"

namespace fourfold::test {
namespace {

using config::Config;
using config::grids_of;
using config::strategy_of;
using grid::Sizes;

std::string complaint_about(const char* strategy, int ranks) {
  try {
    static_cast<void>(grids_of(strategy_of(strategy), ranks));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Strategies, HaveGridsOfTheirOwn) {
  using All = std::vector<Sizes>;
  for (const char* name : {"ddp", "zero1", "zero2"}) {
    EXPECT_EQ(grids_of(strategy_of(name), 6), (All{{.data = 6}})) << name;
  }
  EXPECT_EQ(grids_of(strategy_of("zero3"), 6), (All{{.z = 6}}));
  EXPECT_EQ(grids_of(strategy_of("megatron"), 6), (All{{.y = 6}}));
  EXPECT_EQ(grids_of(strategy_of("summa2d"), 9), (All{{.x = 3, .y = 3}}));
  EXPECT_EQ(grids_of(strategy_of("summa2.5d"), 8), (All{{.x = 2, .y = 2, .z = 2}}));
  EXPECT_EQ(grids_of(strategy_of("summa2.5d"), 9), (All{{.x = 3, .y = 3}}));
  EXPECT_EQ(grids_of(strategy_of("3d"), 27), (All{{.x = 3, .y = 3, .z = 3}}));
  EXPECT_EQ(grids_of(strategy_of("3d"), 64), (All{{.x = 4, .y = 4, .z = 4}}));
  EXPECT_EQ(grids_of(strategy_of("4d"), 8).size(), 20U);
  EXPECT_EQ(grids_of(strategy_of("deepspeed3d"), 8), (All{{.y = 2, .data = 2, .pipe = 2}}));
  EXPECT_EQ(grids_of(strategy_of("deepspeed3d"), 4).size(), 6U);
  for (const config::Strategy& strategy : config::strategies()) {
    EXPECT_EQ(grids_of(strategy, 1), (All{{}})) << strategy.name;
    for (const Sizes& sizes : grids_of(strategy, 64)) check_sizes(strategy, sizes);
  }
}

TEST(Strategies, SayWhichNumbersOfRanksTheyHave) {
  EXPECT_EQ(complaint_about("summa2d", 8),
            "the strategy summa2d has no grid of 8 ranks: 4 and 9 are the nearest that have one; "
            "or name the sizes, with some ranks along data");
  EXPECT_EQ(complaint_about("3d", 16),
            "the strategy 3d has no grid of 16 ranks: 8 and 27 are the nearest that have one; or "
            "name the sizes, with some ranks along data");
  EXPECT_EQ(complaint_about("summa2.5d", 2),
            "the strategy summa2.5d has no grid of 2 ranks: 1 and 4 are the nearest that have one; "
            "or name the sizes, with some ranks along data");
}

class Strategy : public ConfigTest {
 protected:
  Config of(std::vector<std::string> settings, const std::string& grid = "") const {
    settings[0] = "parallel.strategy=" + settings[0];
    return read(kSmall, settings, grid);
  }
  std::string refused(std::vector<std::string> settings, const std::string& grid = "") const {
    try {
      of(std::move(settings), grid);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Strategy, FixWhatTheyAre) {
  using config::Activations;
  EXPECT_EQ(of({"ddp"}).parallel.zero, 0);
  EXPECT_EQ(of({"zero1"}).parallel.zero, 1);
  EXPECT_EQ(of({"zero2"}).parallel.zero, 2);
  EXPECT_EQ(of({"deepspeed3d"}).parallel.zero, 1);
  EXPECT_EQ(of({"4d", "parallel.zero=0"}).parallel.zero, 0);
  EXPECT_EQ(of({"megatron"}).parallel.activations, Activations::kSharded);
  EXPECT_EQ(of({"megatron", "parallel.sequence_parallel=false"}).parallel.activations,
            Activations::kReplicated);
  EXPECT_EQ(of({"deepspeed3d"}).parallel.activations, Activations::kReplicated);
  EXPECT_EQ(of({"4d", "parallel.activations=replicated"}).parallel.activations,
            Activations::kReplicated);
}

TEST_F(Strategy, APlanKeepsWhatIsGiven) {
  const auto kept = [&](const std::string& setting) {
    const config::ParallelConfig::Kept all = of({"auto", setting}).parallel.kept;
    return concat(all.placement, all.activations, all.checkpoint, all.micro_batch, all.chunks,
                  all.zero);
  };
  EXPECT_EQ(kept("train.seed=1"), "000000");
  EXPECT_EQ(kept("parallel.placement=\"y,x,z,data,pipe\""), "100000");
  EXPECT_EQ(kept("parallel.activations=replicated"), "010000");
  EXPECT_EQ(kept("train.checkpoint_activations=true"), "001000");
  EXPECT_EQ(kept("train.micro_batch=1"), "000100");
  EXPECT_EQ(kept("parallel.chunks=1"), "000010");
  EXPECT_EQ(kept("parallel.zero=2"), "000001");
}

TEST_F(Strategy, ReadBackAsWritten) {
  for (const config::Strategy& strategy : config::strategies()) {
    Config config = of({std::string(strategy.name)});
    for (const bool given : {false, true}) {
      config.parallel.given = given;
      if (given) config.parallel.sizes = grids_of(strategy, 64)[0];
      EXPECT_EQ(read(config::to_toml(config)), config) << strategy.name;
    }
  }
  const Config plain = of({"megatron", "parallel.sequence_parallel=false"});
  EXPECT_EQ(read(config::to_toml(plain)), plain);
}

TEST_F(Strategy, RefuseSizesThatAreNotTheirs) {
  EXPECT_EQ(refused({"megatron"}, "x=2,y=2"),
            "--grid: the strategy megatron has y and data only: x must be 1, not 2; for any grid "
            "use parallel.strategy = \"4d\"");
  EXPECT_EQ(refused({"summa2d"}, "x=2,y=4"),
            "--grid: the strategy summa2d needs the same size of x and y, not x=2,y=4; for any "
            "grid use parallel.strategy = \"4d\"");
  EXPECT_EQ(refused({"3d"}, "x=2,y=2,z=1"),
            "--grid: the strategy 3d needs the same size of x, y and z, not x=2,y=2,z=1; for any "
            "grid use parallel.strategy = \"4d\"");
  EXPECT_EQ(refused({"zero2"}, "z=2"),
            "--grid: the strategy zero2 has data only: z must be 1, not 2; for any grid use "
            "parallel.strategy = \"4d\"");
  EXPECT_EQ(refused({"4d"}, "x=2,y=3,z=4,data=5,pipe=6"), "");
  EXPECT_EQ(refused({"summa2.5d"}, "x=2,y=2,z=3,data=5"), "");
}

TEST_F(Strategy, RefuseWhatContradictsThem) {
  EXPECT_EQ(refused({"ddp", "parallel.zero=1"}),
            "--set: parallel.zero = 1 does not go with the strategy ddp, which has 0");
  EXPECT_EQ(refused({"4d", "parallel.sequence_parallel=true"}),
            "--set: parallel.sequence_parallel goes with the strategy megatron, not with 4d; there "
            "it is parallel.activations");
  EXPECT_EQ(refused({"3d", "parallel.activations=replicated"}),
            "--set: parallel.activations = \"replicated\" does not go with the strategy 3d, which "
            "has them sharded");
}

}  // namespace
}  // namespace fourfold::test
