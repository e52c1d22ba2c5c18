#include <gtest/gtest.h>

#include "core/netlink_socket.h"
#include "scripted_kernel.h"

namespace viaduct {
namespace {

constexpr uint16_t kEntry = 0x18;

class NetlinkDump : public testing::Test {
 protected:
  Status Run() {
    NetlinkSocket::Options options;
    options.calls = &kernel;
    options.deadline = std::chrono::milliseconds(100);
    auto opened = NetlinkSocket::Open(options);
    EXPECT_TRUE(opened.ok());
    socket.emplace(std::move(opened.value()));
    return Again();
  }

  Status Again() {
    return socket->Dump(
        MakeMessage(0x1a, 0, 0, {}),
        [this](uint16_t type, std::span<const uint8_t> payload) {
          EXPECT_EQ(type, kEntry);
          entries.push_back(payload[0]);
        },
        [this] {
          ++restarts;
          entries.clear();
        });
  }

  /// Answers the dump with this sequence: entries 1 and 2 in one datagram, 3 and DONE in the next.
  void AnswerWhole(int fd, uint32_t sequence, uint16_t flags = 0) {
    const uint16_t multi = NLM_F_MULTI | flags;
    kernel.queue(fd).push_back({Concatenate(
        {MakeMessage(kEntry, multi, sequence, {1}), MakeMessage(kEntry, multi, sequence, {2})})});
    kernel.queue(fd).push_back(
        {Concatenate({MakeMessage(kEntry, NLM_F_MULTI, sequence, {3}), MakeDone(sequence)})});
  }

  ScriptedKernel kernel;
  std::optional<NetlinkSocket> socket;
  std::vector<uint8_t> entries;
  int restarts = 0;
};

TEST_F(NetlinkDump, CollectsAllParts) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    EXPECT_EQ(HeadersOf(sent)[0].nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
    AnswerWhole(fd, HeadersOf(sent)[0].nlmsg_seq);
    return 0;
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(entries, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(restarts, 0);
}

TEST_F(NetlinkDump, AcceptsAnUnalignedLastMessage) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    Bytes entry = MakeMessage(kEntry, NLM_F_MULTI, HeadersOf(sent)[0].nlmsg_seq, {7});
    entry.resize(NLMSG_HDRLEN + 1);
    kernel.queue(fd).push_back({entry});
    kernel.queue(fd).push_back({MakeDone(HeadersOf(sent)[0].nlmsg_seq)});
    return 0;
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(entries, (std::vector<uint8_t>{7}));
}

TEST_F(NetlinkDump, RestartsWhenInterrupted) {
  int dumps = 0;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    AnswerWhole(fd, HeadersOf(sent)[0].nlmsg_seq, ++dumps < 3 ? NLM_F_DUMP_INTR : 0);
    return 0;
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(restarts, 2);
  EXPECT_EQ(entries, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(kernel.sockets_opened(), 1);
}

TEST_F(NetlinkDump, GivesUpWhenItIsAlwaysInterrupted) {
  int dumps = 0;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    ++dumps;
    AnswerWhole(fd, HeadersOf(sent)[0].nlmsg_seq, NLM_F_DUMP_INTR);
    return 0;
  };
  const auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, EINTR);
  EXPECT_EQ(dumps, 8);
}

TEST_F(NetlinkDump, HasOneDeadlineForAllAttempts) {
  int dumps = 0;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    ++dumps;
    kernel.Pass(std::chrono::milliseconds(60));  // of 100
    AnswerWhole(fd, HeadersOf(sent)[0].nlmsg_seq, NLM_F_DUMP_INTR);
    return 0;
  };
  const auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ETIMEDOUT);
  EXPECT_EQ(dumps, 2);
}

TEST_F(NetlinkDump, KeepsTheSocketWhenTheKernelRefuses) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, ENODEV)});
    return 0;
  };
  const auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENODEV);
  EXPECT_EQ(kernel.sockets_opened(), 1);
}

TEST_F(NetlinkDump, ReportsTheErrnoOfDone) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back(
        {MakeMessage(NLMSG_DONE, NLM_F_MULTI, HeadersOf(sent)[0].nlmsg_seq, {0xfe, 0xff, 0xff, 0xff})});
    return 0;
  };
  const auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENOENT);
  EXPECT_EQ(kernel.sockets_opened(), 1);
}

struct Abort {
  const char* name;
  std::optional<Datagram> datagram;
  int code;
};

class AbortedDump : public NetlinkDump, public testing::WithParamInterface<Abort> {};

TEST_P(AbortedDump, ReopensTheSocketSoThatTheNextOneRuns) {
  bool is_first = true;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    if (!std::exchange(is_first, false)) {
      AnswerWhole(fd, sequence);
      return 0;
    }
    kernel.queue(fd).push_back({MakeMessage(kEntry, NLM_F_MULTI, sequence, {1})});
    if (GetParam().datagram) kernel.queue(fd).push_back(*GetParam().datagram);
    return 0;
  };
  const auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, GetParam().code);
  EXPECT_EQ(kernel.sockets_opened(), 2);
  entries.clear();
  ASSERT_TRUE(Again().ok());
  EXPECT_EQ(entries, (std::vector<uint8_t>{1, 2, 3}));
}

INSTANTIATE_TEST_SUITE_P(All, AbortedDump,
                         testing::Values(Abort{"Silence", std::nullopt, ETIMEDOUT},
                                         Abort{"Overrun", Datagram{{}, ENOBUFS}, ENOBUFS},
                                         Abort{"Truncated", Datagram{MakeDone(1), 0, 0, true}, EMSGSIZE},
                                         Abort{"Malformed", Datagram{Bytes(5)}, EPROTO}),
                         [](const auto& info) { return std::string(info.param.name); });

struct Reopening {
  const char* name;
  int ScriptedKernel::*refusal;
};

class FailedReopening : public NetlinkDump, public testing::WithParamInterface<Reopening> {};

TEST_P(FailedReopening, IsTriedAgainByTheNextCall) {
  bool is_first = true;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    if (std::exchange(is_first, false)) {
      kernel.queue(fd).push_back({{}, ENOBUFS});
      kernel.*GetParam().refusal = EMFILE;
    } else {
      AnswerWhole(fd, HeadersOf(sent)[0].nlmsg_seq);
    }
    return 0;
  };
  auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENOBUFS);
  status = Again();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, EMFILE);
  kernel.*GetParam().refusal = 0;
  EXPECT_TRUE(Again().ok());
  EXPECT_EQ(entries, (std::vector<uint8_t>{1, 2, 3}));
}

INSTANTIATE_TEST_SUITE_P(All, FailedReopening,
                         testing::Values(Reopening{"NoDescriptor", &ScriptedKernel::socket_error},
                                         Reopening{"NoPort", &ScriptedKernel::bind_error}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(NetlinkDump, ReportsTheErrorOfTheSend) {
  kernel.on_send = [](int, const Bytes&) { return ENOBUFS; };
  const auto status = Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENOBUFS);
  EXPECT_EQ(kernel.sockets_opened(), 1);
}

}  // namespace
}  // namespace viaduct
