// The listening sockets of the relay: which of them share a port, and that other programs share none. On
// loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>

#include "core/fd.h"
#include "relay/datagrams.h"
#include "relay/listener_sockets.h"
#include "scripted_kernel.h"

namespace viaduct::relay {
namespace {

SocketAddress At(const char* text, uint16_t port) {
  const uint8_t family = std::string(text).find(':') == std::string::npos ? AF_INET : AF_INET6;
  uint8_t address[16] = {};
  EXPECT_EQ(inet_pton(family, text, address), 1);
  return {address, family, port};
}

std::string Text(const SocketAddress& address) {
  uint8_t bytes[16];
  uint16_t port = 0;
  address.Write(bytes, port);
  char text[INET6_ADDRSTRLEN] = {};
  EXPECT_NE(inet_ntop(address.family(), bytes, text, sizeof text), nullptr);
  return text;
}

/// A port of the address that was free a moment ago.
uint16_t FreePort(int protocol, const SocketAddress& address) {
  const Fd fd(socket(address.family(), protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, 0));
  SocketAddress bound = address;
  socklen_t length = SocketAddress::kRoom;
  EXPECT_EQ(bind(fd.get(), bound.data(), bound.size()), 0);
  EXPECT_EQ(getsockname(fd.get(), bound.data(), &length), 0);
  return bound.port();
}

/// As another program binds that shares what it may. 0 or errno. `is_mapped`: by a socket of IPv6 that takes
/// IPv4.
int BindElsewhere(Fd& fd, int protocol, const SocketAddress& address, bool is_mapped = false) {
  SocketAddress bound = address;
  if (is_mapped) bound = At(("::ffff:" + Text(address)).c_str(), address.port());
  fd = Fd(socket(bound.family(), protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, 0));
  const int yes = 1;
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes), 0);
  if (bound.family() == AF_INET6 && !is_mapped)
    EXPECT_EQ(setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes), 0);
  if (bind(fd.get(), bound.data(), bound.size()) != 0) return errno;
  return protocol == IPPROTO_TCP && listen(fd.get(), 1) != 0 ? errno : 0;
}

int BindElsewhere(int protocol, const SocketAddress& address) {
  Fd fd;
  return BindElsewhere(fd, protocol, address);
}

struct Place {
  int protocol;
  const char* single;
  const char* wildcard;
  const char* other;
};

class RelayListenersTest : public testing::TestWithParam<Place> {
 protected:
  int protocol() const { return GetParam().protocol; }
  const uint16_t port_ = FreePort(GetParam().protocol, At(GetParam().wildcard, 0));
  const SocketAddress single_ = At(GetParam().single, port_);
  const SocketAddress wildcard_ = At(GetParam().wildcard, port_);
  const SocketAddress other_ = At(GetParam().other, port_);
  ListenerSockets sockets_;
};

TEST_P(RelayListenersTest, TheWildcardStandsBesideASingleAddress) {
  for (const bool is_wildcard_first : {true, false}) {
    auto first = sockets_.Open(protocol(), is_wildcard_first ? wildcard_ : single_);
    ASSERT_TRUE(first.ok());
    auto second = sockets_.Open(protocol(), is_wildcard_first ? single_ : wildcard_);
    ASSERT_TRUE(second.ok()) << second.error().code;
    EXPECT_EQ(BindElsewhere(protocol(), single_), EADDRINUSE);
    EXPECT_EQ(BindElsewhere(protocol(), wildcard_), EADDRINUSE);
  }
  EXPECT_EQ(BindElsewhere(protocol(), wildcard_), 0);
}

TEST_P(RelayListenersTest, ASocketTakesThePlaceOfAnother) {
  for (const SocketAddress& address : {single_, wildcard_}) {
    auto socket = sockets_.Open(protocol(), address);
    ASSERT_TRUE(socket.ok());
    auto next = sockets_.Open(protocol(), address);
    ASSERT_TRUE(next.ok()) << next.error().code;
    socket.value() = std::move(next.value());
    EXPECT_EQ(BindElsewhere(protocol(), single_), EADDRINUSE);
    socket.value().Reset();
    EXPECT_EQ(BindElsewhere(protocol(), single_), 0);
  }
}

TEST_P(RelayListenersTest, AnotherProgramKeepsItsPort) {
  const Fd other(socket(single_.family(), protocol() == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, 0));
  ASSERT_EQ(bind(other.get(), single_.data(), single_.size()), 0);
  if (protocol() == IPPROTO_TCP) ASSERT_EQ(listen(other.get(), 1), 0);
  for (const SocketAddress& address : {single_, wildcard_}) {
    const auto socket = sockets_.Open(protocol(), address);
    ASSERT_FALSE(socket.ok());
    EXPECT_EQ(socket.error().code, EADDRINUSE);
    EXPECT_EQ(socket.error().operation, "bind");
  }
}

TEST_P(RelayListenersTest, AWildcardBesideAnOwnSocketFindsAnotherProgramThatShares) {
  for (const bool is_mapped : {false, true}) {
    if (is_mapped && single_.family() == AF_INET6) continue;
    Fd stranger;
    ASSERT_EQ(BindElsewhere(stranger, protocol(), single_, is_mapped), 0);
    auto own = sockets_.Open(protocol(), other_);
    ASSERT_TRUE(own.ok());
    const auto refused = sockets_.Open(protocol(), wildcard_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, EADDRINUSE);
    EXPECT_EQ(sockets_.Open(protocol(), single_).ok(), false);
    stranger.Reset();
    const auto wildcard = sockets_.Open(protocol(), wildcard_);
    EXPECT_TRUE(wildcard.ok());
    EXPECT_TRUE(sockets_.Open(protocol(), single_).ok());
    EXPECT_EQ(BindElsewhere(protocol(), single_), EADDRINUSE);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, RelayListenersTest,
                         testing::Values(Place{IPPROTO_TCP, "127.0.0.1", "0.0.0.0", "127.0.0.9"},
                                         Place{IPPROTO_UDP, "127.0.0.1", "0.0.0.0", "127.0.0.9"},
                                         Place{IPPROTO_TCP, "::1", "::", "fd00:10:96::77"},
                                         Place{IPPROTO_UDP, "::1", "::", "fd00:10:96::77"}));

TEST(RelayUdpListenersTest, AWildcardThatKeepsLoopbackAloneDoesNotTakeThePortBack) {
  ListenerSockets sockets;
  const SocketAddress wildcard = At("0.0.0.0", FreePort(IPPROTO_UDP, At("0.0.0.0", 0)));
  const auto closed = sockets.Open(IPPROTO_UDP, wildcard);
  ASSERT_TRUE(closed.ok());
  ASSERT_TRUE(CloseToClients(closed.value().get()));
  Fd stranger;
  ASSERT_EQ(BindElsewhere(stranger, IPPROTO_UDP, At("127.0.0.9", wildcard.port())), 0);
  const auto refused = sockets.Open(IPPROTO_UDP, wildcard);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EADDRINUSE);
  stranger.Reset();
  EXPECT_TRUE(sockets.Open(IPPROTO_UDP, wildcard).ok());
}

TEST(RelayListenersWithoutDiagTest, TheFirstWildcardOpensOnlyAlone) {
  ScriptedKernel kernel;
  kernel.socket_error = EPROTONOSUPPORT;
  ListenerSockets sockets(kernel);
  for (const int protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
    const SocketAddress wildcard = At("0.0.0.0", FreePort(protocol, At("0.0.0.0", 0)));
    const SocketAddress single = At("127.0.0.9", wildcard.port());
    {
      const auto first = sockets.Open(protocol, single);
      ASSERT_TRUE(first.ok());
      const auto refused = sockets.Open(protocol, wildcard);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, EOPNOTSUPP);
    }
    const auto first = sockets.Open(protocol, wildcard);
    ASSERT_TRUE(first.ok());
    EXPECT_TRUE(sockets.Open(protocol, single).ok());
    EXPECT_TRUE(sockets.Open(protocol, wildcard).ok());
  }
}

TEST(RelayListenersWithoutDiagTest, AShortageIsReportedAsSuch) {
  ScriptedKernel kernel;
  kernel.socket_error = EMFILE;
  ListenerSockets sockets(kernel);
  const SocketAddress wildcard = At("0.0.0.0", FreePort(IPPROTO_TCP, At("0.0.0.0", 0)));
  const auto first = sockets.Open(IPPROTO_TCP, wildcard);
  ASSERT_TRUE(first.ok());
  const auto refused = sockets.Open(IPPROTO_TCP, At("127.0.0.9", wildcard.port()));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EMFILE);
}

TEST(RelayDatagramsTest, SendsFromTheAddressThatIsAsked) {
  ListenerSockets sockets;
  const uint16_t port = FreePort(IPPROTO_UDP, At("0.0.0.0", 0));
  auto wildcard = sockets.Open(IPPROTO_UDP, At("0.0.0.0", port));
  ASSERT_TRUE(wildcard.ok());
  const Fd client(socket(AF_INET, SOCK_DGRAM, 0));
  const SocketAddress target = At("127.0.0.9", port);
  SocketAddress own = At("127.0.0.1", 0);
  socklen_t length = SocketAddress::kRoom;
  ASSERT_EQ(bind(client.get(), own.data(), own.size()), 0);
  ASSERT_EQ(getsockname(client.get(), own.data(), &length), 0);
  ASSERT_EQ(sendto(client.get(), "x", 1, 0, target.data(), target.size()), 1);
  Datagrams batch;
  ASSERT_EQ(batch.Receive(wildcard.value().get()), 1);
  batch.Prepare(0, &own, &target);
  ASSERT_EQ(batch.Send(wildcard.value().get(), 0, 1), 1);
  std::array<char, 2> text{};
  SocketAddress source;
  length = SocketAddress::kRoom;
  ASSERT_EQ(recvfrom(client.get(), text.data(), text.size(), 0, source.data(), &length), 1);
  EXPECT_TRUE(source == target);
}

}  // namespace
}  // namespace viaduct::relay
