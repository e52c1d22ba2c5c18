#include "core/netlink_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "scripted_kernel.h"

namespace viaduct {
namespace {

using std::chrono::milliseconds;

constexpr uint16_t kReply = 0x20;

NetlinkSocket::Options With(ScriptedKernel& kernel) {
  NetlinkSocket::Options options;
  options.calls = &kernel;
  options.deadline = milliseconds(250);
  return options;
}

/// A request of one header; NetlinkSocket sets flags and sequence.
const Bytes kRequest = MakeMessage(0x19, 0, 0, {1, 2, 3, 4});

struct Replies {
  std::vector<Bytes> payloads;
  NetlinkSocket::OnMessage on_message = [this](uint16_t, std::span<const uint8_t> payload) {
    payloads.emplace_back(payload.begin(), payload.end());
  };
};

TEST(NetlinkSocketOpen, SetsOptions) {
  ScriptedKernel kernel;
  auto options = With(kernel);
  options.strict_check = true;
  options.groups = {1, 5};
  auto socket = NetlinkSocket::Open(options);
  ASSERT_TRUE(socket.ok());
  for (const int option : {NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK, NETLINK_ADD_MEMBERSHIP})
    EXPECT_TRUE(kernel.has_option(SOL_NETLINK, option)) << option;
}

TEST(NetlinkSocketOpen, SetsStrictCheckingOnlyIfRequested) {
  ScriptedKernel kernel;
  ASSERT_TRUE(NetlinkSocket::Open(With(kernel)).ok());
  EXPECT_FALSE(kernel.has_option(SOL_NETLINK, NETLINK_GET_STRICT_CHK));
}

TEST(NetlinkSocketOpen, ReportsWhichStepFailed) {
  ScriptedKernel no_socket;
  no_socket.socket_error = EPROTONOSUPPORT;
  auto result = NetlinkSocket::Open(With(no_socket));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, EPROTONOSUPPORT);
  EXPECT_EQ(result.error().operation, "open netlink socket");

  ScriptedKernel no_bind;
  no_bind.bind_error = EADDRINUSE;
  result = NetlinkSocket::Open(With(no_bind));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().operation, "bind netlink socket");
}

TEST(NetlinkSocketOpen, BoundsSendsByTheRealBuffers) {
  ScriptedKernel forced;
  auto socket = NetlinkSocket::Open(With(forced));
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(socket.value().max_send_bytes(), 256U << 10);
  EXPECT_GT(socket.value().max_requests_per_send(), 5000U);

  ScriptedKernel unforced;
  unforced.can_force_buffers = false;
  socket = NetlinkSocket::Open(With(unforced));
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(socket.value().max_send_bytes(), 212992U - 32);
  // All of them failing must fit: 221 errors do on 6.12.
  EXPECT_LE(socket.value().max_requests_per_send(), 221U);
  EXPECT_GE(socket.value().max_requests_per_send(), 100U);
}

TEST(NetlinkSocketSequence, IsNeverZeroAndNeverWrapsInsideARun) {
  ScriptedKernel kernel;
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(socket.value().TakeSequence(), 1U);
  EXPECT_EQ(socket.value().TakeSequence(0xfffffff0U), 2U);
  EXPECT_EQ(socket.value().TakeSequence(100), 1U);
}

TEST(NetlinkSocketRequest, PassesTheReplyOnAndEndsAtTheAcknowledgement) {
  ScriptedKernel kernel;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const nlmsghdr header = HeadersOf(sent)[0];
    EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
    kernel.queue(fd).push_back({MakeMessage(kReply, 0, header.nlmsg_seq, {9})});
    kernel.queue(fd).push_back({MakeError(header.nlmsg_seq, 0)});
    return 0;
  };
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  EXPECT_TRUE(socket.value().Request(kRequest, replies.on_message).ok());
  EXPECT_EQ(replies.payloads, std::vector<Bytes>{{9}});
}

TEST(NetlinkSocketRequest, ReturnsTheTextOfTheKernel) {
  ScriptedKernel kernel;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, EINVAL, "Invalid prefix")});
    return 0;
  };
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  auto status = socket.value().Request(kRequest, replies.on_message);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, EINVAL);
  EXPECT_EQ(status.error().text, "Invalid prefix");
}

TEST(NetlinkSocketRequest, IgnoresOtherSendersAndLateReplies) {
  ScriptedKernel kernel;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    Datagram forged{MakeError(sequence, EPERM)};
    forged.sender = 99;
    kernel.queue(fd).push_back(forged);
    kernel.queue(fd).push_back({MakeError(sequence - 1, EPERM)});
    kernel.queue(fd).push_back({MakeError(sequence, 0)});
    return 0;
  };
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  EXPECT_TRUE(socket.value().Request(kRequest, replies.on_message).ok());
}

TEST(NetlinkSocketRequest, EndsAtTheDeadlineWhenTheKernelIsSilent) {
  ScriptedKernel kernel;
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  auto status = socket.value().Request(kRequest, replies.on_message);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ETIMEDOUT);
  EXPECT_EQ(kernel.elapsed(), milliseconds(250) + std::chrono::nanoseconds(1));
}

TEST(NetlinkSocketRequest, EndsAtTheDeadlineAfterUnrelatedMessages) {
  ScriptedKernel kernel;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t other = HeadersOf(sent)[0].nlmsg_seq + 1;
    for (int i = 0; i < 10; ++i) kernel.queue(fd).push_back({MakeMessage(kReply, 0, other, {})});
    return 0;
  };
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  auto status = socket.value().Request(kRequest, replies.on_message);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ETIMEDOUT);
  EXPECT_TRUE(replies.payloads.empty());
}

struct BrokenReply {
  const char* name;
  Datagram datagram;
  int code;
};

class NetlinkSocketBrokenReply : public testing::TestWithParam<BrokenReply> {};

TEST_P(NetlinkSocketBrokenReply, IsAnErrorOfItsOwn) {
  ScriptedKernel kernel;
  kernel.on_send = [&](int fd, const Bytes&) {
    kernel.queue(fd).push_back(GetParam().datagram);
    return 0;
  };
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  auto status = socket.value().Request(kRequest, replies.on_message);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(All, NetlinkSocketBrokenReply,
                         testing::Values(BrokenReply{"Overrun", {{}, ENOBUFS}, ENOBUFS},
                                         BrokenReply{"Truncated", {MakeError(1, 0), 0, 0, true}, EMSGSIZE},
                                         BrokenReply{
                                             "ShortError", {MakeMessage(NLMSG_ERROR, 0, 1, {0, 0})}, EPROTO},
                                         BrokenReply{"LengthBeyondDatagram",
                                                     {Bytes{64, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}},
                                                     EPROTO},
                                         BrokenReply{"LessThanAHeader", {Bytes{16, 0, 0}}, EPROTO}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NetlinkSocketReceive, RetriesAfterSignals) {
  ScriptedKernel kernel;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, 0)});
    kernel.receive_errors = {EINTR, EINTR};
    return 0;
  };
  auto socket = NetlinkSocket::Open(With(kernel));
  ASSERT_TRUE(socket.ok());
  Replies replies;
  EXPECT_TRUE(socket.value().Request(kRequest, replies.on_message).ok());
}

}  // namespace
}  // namespace viaduct
