// Tests that run on several ranks: as threads here, as processes under mpirun (mpi_main.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/world.hpp"

namespace fourfold::test {

using Body = std::function<void(comm::World&)>;

/// Runs `body` on `ranks` threads under a watchdog; an exception of any of them fails the test.
void on_threads(int ranks, const Body& body, const comm::Options& options = {});

/// A failed expectation, thrown on every rank alike.
class ExpectationFailed : public Error {
 public:
  using Error::Error;
};

/// Collective over the world: every rank brings its own verdict, and all fail together if one does,
/// so that none leaves early and hangs the rest. The message is that of the lowest failed rank.
void expect_on_all_ranks(comm::World& world, bool holds, const std::string& message);

/// A group of every rank of the world, named by all axes.
grid::Group everyone(const comm::World& world);

/// Runs `body` on the world of this process under a watchdog. A failed expectation fails the test
/// on every rank; any other exception ends the job. Defined by mpi_main.cpp.
void on_mpi(const Body& body);

}  // namespace fourfold::test
