#include "route/route_events.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>

#include <thread>

#include "hex.h"
#include "scripted_kernel.h"

namespace viaduct::route {
namespace {

const Bytes kLink = FromHex("00 00 01 00 05 00 00 00 00 00 00 00 00 00 00 00 06 00 03 00 64 30 00 00");

/// A subscription with the only socket of a scripted kernel.
class RouteEventsTest : public testing::Test {
 protected:
  void SetUp() override {
    events.emplace(std::move(RouteEvents::Open(kernel).value()));
    fd = kernel.last_socket();
  }

  ScriptedKernel kernel;
  std::optional<RouteEvents> events;
  int fd = -1;
};

TEST_F(RouteEventsTest, CollectsQueuedEvents) {
  kernel.queue(fd).push_back({MakeMessage(RTM_NEWLINK, 0, 0, kLink)});
  kernel.queue(fd).push_back({MakeMessage(RTM_DELLINK, 0, 77, kLink)});
  auto result = events->Next();
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.value().size(), 2U);
  EXPECT_EQ(result.value()[0].op, Op::kAdd);
  EXPECT_EQ(result.value()[1].op, Op::kRemove);
}

TEST_F(RouteEventsTest, OverrunIsAnEventAndTheRestFollows) {
  kernel.queue(fd).push_back({{}, ENOBUFS});
  kernel.queue(fd).push_back({MakeMessage(RTM_NEWLINK, 0, 0, kLink)});
  auto result = events->Next();
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.value().size(), 2U);
  EXPECT_EQ(result.value()[0].kind, EventKind::kOverrun);
  EXPECT_EQ(result.value()[1].kind, EventKind::kLink);
}

TEST_F(RouteEventsTest, IgnoresForgedAndMalformedMessages) {
  Datagram forged{MakeMessage(RTM_NEWLINK, 0, 0, kLink)};
  forged.sender = 5;
  kernel.queue(fd).push_back(forged);
  kernel.queue(fd).push_back({MakeMessage(RTM_NEWLINK, 0, 0, {1, 2})});
  kernel.queue(fd).push_back({MakeMessage(RTM_DELLINK, 0, 0, kLink)});
  auto result = events->Next();
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.value().size(), 1U);
  EXPECT_EQ(result.value()[0].op, Op::kRemove);
}

TEST_F(RouteEventsTest, TheRemovalOfABridgePortDoesNotRemoveAnInterface) {
  Bytes port = kLink;
  port[0] = AF_BRIDGE;
  kernel.queue(fd).push_back({MakeMessage(RTM_DELLINK, 0, 0, port)});
  kernel.queue(fd).push_back({MakeMessage(RTM_NEWLINK, 0, 0, kLink)});
  auto result = events->Next();
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.value().size(), 1U);
  EXPECT_EQ(result.value()[0].op, Op::kAdd);
}

TEST_F(RouteEventsTest, AShortageOfMemoryLosesEvents) {
  kernel.receive_errors = {ENOMEM};
  kernel.queue(fd).push_back({MakeMessage(RTM_NEWLINK, 0, 0, kLink)});
  auto result = events->Next();
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.value().size(), 2U);
  EXPECT_EQ(result.value()[0].kind, EventKind::kOverrun);
}

TEST_F(RouteEventsTest, ReportsABrokenSocket) {
  kernel.queue(fd).push_back({{}, EBADF});
  auto result = events->Next();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, EBADF);
}

TEST_F(RouteEventsTest, IgnoredMessagesDoNotProlongAWait) {
  Bytes port = kLink;
  port[0] = AF_BRIDGE;
  const auto start = kernel.elapsed();
  kernel.on_poll = [&, messages = 10](int) mutable {
    if (messages-- <= 0) return 0;
    kernel.Pass(std::chrono::seconds(1));
    kernel.queue(fd).push_back({MakeMessage(RTM_DELLINK, 0, 0, port)});
    return 0;
  };
  auto result = events->Next(std::chrono::seconds(5));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.value().empty());
  EXPECT_EQ(kernel.elapsed() - start, std::chrono::seconds(5));
}

TEST_F(RouteEventsTest, WakeBeforeNextIsRemembered) {
  // The scripted poll does not support eventfds: use the real one on an idle socket.
  auto real = RouteEvents::Open();
  ASSERT_TRUE(real.ok());
  real.value().Wake();
  auto result = real.value().Next();
  ASSERT_TRUE(result.ok());
}

TEST_F(RouteEventsTest, WakeFromAnotherThreadEndsTheWait) {
  auto real = RouteEvents::Open();
  ASSERT_TRUE(real.ok());
  std::thread waker([&] { real.value().Wake(); });
  while (!real.value().Next().value().empty()) {
    // Changes on the machine's own links may come first.
  }
  waker.join();
}

}  // namespace
}  // namespace viaduct::route
