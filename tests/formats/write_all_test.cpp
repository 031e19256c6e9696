// Writes that the system cuts in pieces and interrupts.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/write_all.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

TEST(WriteAll, GoesOnAfterSignals) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // and no SA_RESTART: a write under way returns
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);

  std::string text;
  while (text.size() < 300'000) text += std::to_string(text.size()) + " ";
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  int error = -1;
  std::thread writer([&] {
    error = formats::write_all(ends[1], text.data(), text.size());
    close(ends[1]);
  });

  // Once the pipe is full the writer waits in the middle of its bytes; the first signal ends that
  // write early, those after it come while nothing can be written at all.
  const auto moment = std::chrono::milliseconds(2);
  for (int size = 0, last = -1; size == 0 || size != last;) {
    last = size;
    std::this_thread::sleep_for(moment);
    ASSERT_EQ(ioctl(ends[0], FIONREAD, &size), 0);
  }
  for (int i = 0; i < 5; ++i) {
    pthread_kill(writer.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(moment);
  }

  std::string received;
  std::array<char, 4096> piece{};
  for (ssize_t n = 0; (n = read(ends[0], piece.data(), piece.size())) > 0;) {
    received.append(piece.data(), static_cast<std::size_t>(n));
  }
  writer.join();
  close(ends[0]);
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(received, text);
}

TEST(WriteAll, GivesTheErrorsNumber) {
  EXPECT_EQ(formats::write_all(-1, "x", 1), EBADF);
  EXPECT_EQ(formats::write_all(-1, "", 0), 0);
}

}  // namespace
}  // namespace fourfold::test
