#include "core/event_socket.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>

#include <cerrno>

#include "scripted_kernel.h"

namespace viaduct {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EventSocketTest : public testing::Test {
 protected:
  EventSocket Open() {
    auto socket = EventSocket::Open({.protocol = NETLINK_ROUTE, .groups = {RTNLGRP_LINK}, .calls = &kernel});
    EXPECT_TRUE(socket.ok());
    return std::move(socket.value());
  }

  ScriptedKernel kernel;
};

TEST_F(EventSocketTest, SignalsDoNotProlongAWait) {
  auto socket = Open();
  const auto start = kernel.elapsed();
  kernel.on_poll = [&, signals = 10](int) mutable {
    if (signals-- <= 0) return 0;
    kernel.Pass(seconds(1));
    return EINTR;
  };
  const auto readable = socket.Wait(socket.DeadlineIn(seconds(5)));
  ASSERT_TRUE(readable.ok());
  EXPECT_FALSE(readable.value());
  EXPECT_EQ(kernel.elapsed() - start, seconds(5));
}

TEST_F(EventSocketTest, AWaitWithoutALimitEndsWithAnEvent) {
  auto socket = Open();
  kernel.on_poll = [&, signals = 10](int fd) mutable {
    kernel.Pass(std::chrono::hours(1));
    if (signals-- > 0) return EINTR;
    kernel.queue(fd).push_back({});
    return 0;
  };
  const auto readable = socket.Wait(socket.DeadlineIn(milliseconds(-1)));
  ASSERT_TRUE(readable.ok());
  EXPECT_TRUE(readable.value());
}

TEST_F(EventSocketTest, APassedDeadlineStillFindsAQueuedEvent) {
  auto socket = Open();
  const auto deadline = socket.DeadlineIn(milliseconds(0));
  kernel.Pass(seconds(1));
  EXPECT_FALSE(socket.Wait(deadline).value());
  kernel.queue(kernel.last_socket()).push_back({});
  EXPECT_TRUE(socket.Wait(deadline).value());
}

// Issue 35, B9: poll() failed once with ENOMEM, and the agent ended.
TEST_F(EventSocketTest, AWaitOutlastsAShortageOfMemory) {
  for (const int shortage : {ENOMEM, EAGAIN}) {
    auto socket = Open();
    kernel.on_poll = [&, failures = 10](int fd) mutable {
      if (failures-- > 0) return shortage;
      kernel.queue(fd).push_back({});
      return 0;
    };
    const auto readable = socket.Wait(socket.DeadlineIn(milliseconds(-1)));
    ASSERT_TRUE(readable.ok());
    EXPECT_TRUE(readable.value());
  }
}

TEST_F(EventSocketTest, AShortageThatLastsNeitherProlongsAWaitNorTakesTheProcessor) {
  auto socket = Open();
  const auto start = kernel.elapsed();
  int polls = 0;
  kernel.on_poll = [&](int) { return ++polls, ENOMEM; };
  const auto readable = socket.Wait(socket.DeadlineIn(seconds(5)));
  ASSERT_TRUE(readable.ok());
  EXPECT_FALSE(readable.value());
  EXPECT_EQ(kernel.elapsed() - start, seconds(5));
  EXPECT_LE(polls, 501);
}

TEST_F(EventSocketTest, ReportsAWaitThatWouldFailAgain) {
  auto socket = Open();
  kernel.on_poll = [](int) { return EINVAL; };
  EXPECT_EQ(socket.Wait(socket.DeadlineIn(seconds(5))).error().code, EINVAL);
}

}  // namespace
}  // namespace viaduct
