// One direction of a connection, over socket pairs that are full, slow, ended or broken.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "relay/stream.h"

namespace viaduct::relay {
namespace {

/// A stream from `client` to `server`. Parameter: whether the kernel has splice() of sockets.
class StreamTest : public testing::TestWithParam<bool> {
 protected:
  StreamTest() {
    tools.can_splice = GetParam();
    Open(source, client);
    Open(sink, server);
  }

  static void Open(Side& side, Fd& peer) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    side.fd = Fd(ends[0]);
    peer = Fd(ends[1]);
    side.is_readable = side.is_writable = true;
  }

  Progress Move() { return stream.Move(source, sink, tools); }

  /// Writes as much as the socket takes.
  size_t Fill(size_t size) {
    const std::string bytes(size, 'x');
    const ssize_t sent = send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent < 0 ? 0 : static_cast<size_t>(sent);
  }

  size_t Read() {
    std::string bytes(1 << 20, '\0');
    size_t total = 0;
    for (;;) {
      const ssize_t count = recv(server.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return total;
      total += static_cast<size_t>(count);
    }
  }

  Budget budget{100};
  StreamTools tools{budget};
  uint32_t held = 0;
  Stream stream{held};
  Side source;
  Side sink;
  Fd client;
  Fd server;
};

TEST_P(StreamTest, MovesSmallMessagesWithoutAPipe) {
  ASSERT_EQ(Fill(5), 5U);
  EXPECT_EQ(Move(), Progress::kWaits);
  EXPECT_EQ(Read(), 5U);
  EXPECT_EQ(stream.TakeDelivered(), 5U);
  EXPECT_EQ(stream.TakeDelivered(), 0U);
  EXPECT_FALSE(source.is_readable);
  EXPECT_EQ(budget.used(), 0U);
}

TEST_P(StreamTest, MovesManyBytesAndKeepsNoneBack) {
  size_t sent = 0;
  size_t read = 0;
  for (int i = 0; i < 200; ++i) {
    sent += Fill(100'000);
    source.is_readable = sink.is_writable = true;
    EXPECT_NE(Move(), Progress::kBroken);
    read += Read();
  }
  for (int i = 0; i < 10; ++i) {
    source.is_readable = sink.is_writable = true;
    EXPECT_NE(Move(), Progress::kBroken);
    read += Read();
  }
  EXPECT_GT(sent, 5'000'000U);
  EXPECT_EQ(read, sent);
  EXPECT_EQ(stream.TakeDelivered(), sent);
  // A pipe is in use only with splice().
  EXPECT_EQ(budget.used(), GetParam() ? 2U : 0U);
}

TEST_P(StreamTest, AFullSinkStopsTheReads) {
  size_t sent = 0;
  size_t last = 0;
  do {
    last = Fill(100'000);
    sent += last;
    source.is_readable = true;
    EXPECT_EQ(Move(), Progress::kWaits);
  } while (last > 0);
  EXPECT_FALSE(sink.is_writable);
  const size_t delivered = stream.TakeDelivered();
  // A buffer or a pipe is held, and what the socket of the client holds.
  EXPECT_LT(sent - delivered, 1'000'000U);
  size_t read = 0;
  for (size_t more = 1; more > 0;) {
    more = Read();
    read += more;
    source.is_readable = sink.is_writable = true;
    EXPECT_NE(Move(), Progress::kBroken);
  }
  EXPECT_EQ(read, sent);
}

TEST_P(StreamTest, TheEndFollowsTheLastByte) {
  ASSERT_EQ(Fill(70'000), 70'000U);
  shutdown(client.get(), SHUT_WR);
  source.has_end = true;
  size_t read = 0;
  Progress progress = Progress::kWaits;
  for (int i = 0; i < 100 && progress != Progress::kEnded; ++i) {
    source.is_readable = sink.is_writable = true;
    progress = Move();
    read += Read();
  }
  EXPECT_EQ(progress, Progress::kEnded);
  EXPECT_EQ(read, 70'000U);
  char byte = 0;
  EXPECT_EQ(recv(server.get(), &byte, 1, 0), 0);
  EXPECT_EQ(Move(), Progress::kEnded);
}

TEST_P(StreamTest, AnEndThatIsGoneBreaksIt) {
  ASSERT_EQ(Fill(100), 100U);
  server.Reset();
  EXPECT_EQ(Move(), Progress::kBroken);
  stream.Drop(tools);
}

TEST_P(StreamTest, UrgentDataDoesNotHideWhatFollows) {
  ASSERT_EQ(Fill(5), 5U);
  source.has_urgent = true;
  EXPECT_EQ(Move(), Progress::kWaits);
  EXPECT_FALSE(source.is_readable) << "only an empty socket ends the reads";
  EXPECT_EQ(Read(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Kernels, StreamTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithSplice" : "WithoutSplice"; });

}  // namespace
}  // namespace viaduct::relay
