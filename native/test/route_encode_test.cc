#include "route/encode.h"

#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include "hex.h"

namespace viaduct::route {
namespace {

/// local 10.96.0.10/32 dev 1 src 192.168.1.2, protocol 173
RouteRecord LocalRoute(Op op) {
  RouteRecord route{};
  const uint8_t destination[] = {10, 96, 0, 10};
  const uint8_t source[] = {192, 168, 1, 2};
  memcpy(route.destination, destination, sizeof destination);
  memcpy(route.preferred_source, source, sizeof source);
  route.interface_index = 1;
  route.table = RT_TABLE_LOCAL;
  route.op = op;
  route.family = AF_INET;
  route.prefix_length = 32;
  route.protocol = 173;
  route.type = RTN_LOCAL;
  route.scope = RT_SCOPE_HOST;
  return route;
}

std::vector<uint8_t> Encoded(const RouteRecord& route) {
  std::vector<uint8_t> buffer(kMaxRequestBytes);
  MessageBuilder builder(buffer);
  EXPECT_TRUE(EncodeRoute(builder, 7, route));
  buffer.resize(builder.size());
  return buffer;
}

TEST(EncodeRoute, AddsWithPreferredSource) {
  EXPECT_TRUE(HasBytes(Encoded(LocalRoute(Op::kAdd)), R"(
    34 00 00 00  18 00  01 06   # RTM_NEWROUTE, REQUEST | CREATE | EXCL
    07 00 00 00  00 00 00 00
    02 20 00 00                 # AF_INET, dst_len 32, src_len, tos
    ff ad fe 02                 # table local, protocol, scope host, type local
    00 00 00 00                 # flags
    08 00 01 00  0a 60 00 0a    # RTA_DST 10.96.0.10
    08 00 04 00  01 00 00 00    # RTA_OIF 1
    08 00 07 00  c0 a8 01 02    # RTA_PREFSRC 192.168.1.2
  )"));
}

TEST(EncodeRoute, RemovesByIdentityWithoutItsSettings) {
  EXPECT_TRUE(HasBytes(Encoded(LocalRoute(Op::kRemove)), R"(
    2c 00 00 00  19 00  01 00   # RTM_DELROUTE, REQUEST
    07 00 00 00  00 00 00 00
    02 20 00 00
    ff ad fe 02                 # the protocol too: a foreign route stays
    00 00 00 00
    08 00 01 00  0a 60 00 0a    # RTA_DST
    08 00 04 00  01 00 00 00    # RTA_OIF
  )"));
}

TEST(EncodeRoute, ReplacesIpv6WithMetric) {
  RouteRecord route = LocalRoute(Op::kReplace);
  const uint8_t destination[16] = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa};
  const uint8_t source[16] = {0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  memcpy(route.destination, destination, sizeof destination);
  memcpy(route.preferred_source, source, sizeof source);
  route.family = AF_INET6;
  route.prefix_length = 128;
  route.metric = 100;
  EXPECT_TRUE(HasBytes(Encoded(route), R"(
    54 00 00 00  18 00  01 05   # RTM_NEWROUTE, REQUEST | CREATE | REPLACE
    07 00 00 00  00 00 00 00
    0a 80 00 00                 # AF_INET6, dst_len 128
    ff ad fe 02
    00 00 00 00
    14 00 01 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a  # RTA_DST fd00::a
    08 00 04 00  01 00 00 00    # RTA_OIF
    08 00 06 00  64 00 00 00    # RTA_PRIORITY 100
    14 00 07 00  fd 01 00 00  00 00 00 00  00 00 00 00  00 00 00 02  # RTA_PREFSRC
  )"));
}

TEST(EncodeRoute, LargeTableNumberGoesIntoItsAttribute) {
  RouteRecord route = LocalRoute(Op::kRemove);
  route.table = 1000;
  const auto bytes = Encoded(route);
  EXPECT_EQ(bytes[20], RT_TABLE_UNSPEC);
  EXPECT_TRUE(HasBytes(std::span(bytes).last(8), "08 00 0f 00 e8 03 00 00"));
}

TEST(EncodeAddress, AddsIpv6WithFlags) {
  AddressRecord address{};
  address.address[0] = 0xfd;
  address.address[15] = 0xa;
  address.interface_index = 5;
  address.flags = IFA_F_NODAD;
  address.op = Op::kAdd;
  address.family = AF_INET6;
  address.prefix_length = 128;
  std::vector<uint8_t> buffer(kMaxRequestBytes);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeAddress(builder, 7, address));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    48 00 00 00  14 00  01 06   # RTM_NEWADDR, REQUEST | CREATE | EXCL
    07 00 00 00  00 00 00 00
    0a 80 00 00  05 00 00 00    # AF_INET6, prefix 128, flags, scope; index
    14 00 02 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a  # IFA_LOCAL
    14 00 01 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a  # IFA_ADDRESS
    08 00 08 00  02 00 00 00    # IFA_FLAGS NODAD
  )"));
}

TEST(EncodeAddress, RemovesIpv4) {
  AddressRecord address{};
  const uint8_t bytes[] = {10, 96, 0, 10};
  memcpy(address.address, bytes, sizeof bytes);
  address.interface_index = 5;
  address.flags = IFA_F_PERMANENT;
  address.op = Op::kRemove;
  address.family = AF_INET;
  address.prefix_length = 32;
  std::vector<uint8_t> buffer(kMaxRequestBytes);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeAddress(builder, 7, address));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    28 00 00 00  15 00  01 00   # RTM_DELADDR
    07 00 00 00  00 00 00 00
    02 20 00 00  05 00 00 00
    08 00 02 00  0a 60 00 0a    # IFA_LOCAL
    08 00 01 00  0a 60 00 0a    # IFA_ADDRESS
  )"));
}

TEST(EncodeLink, CreatesFindsSetsUpAndRemoves) {
  std::vector<uint8_t> buffer(1024);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeAddDummy(builder, "kube-ipvs0"));
  ASSERT_TRUE(EncodeFindLink(builder, "kube-ipvs0"));
  ASSERT_TRUE(EncodeSetUp(builder, 5));
  ASSERT_TRUE(EncodeRemoveLink(builder, 5));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    40 00 00 00  10 00  01 06  00 00 00 00  00 00 00 00   # RTM_NEWLINK, REQUEST | CREATE | EXCL
    00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00    # family, type, index, flags, change
    0e 00 03 00  6b 75 62 65  2d 69 70 76  73 30 00 00    # IFLA_IFNAME "kube-ipvs0"
    10 00 12 80                                           # IFLA_LINKINFO, NLA_F_NESTED
    09 00 01 00  64 75 6d 6d  79 00 00 00                 #   INFO_KIND "dummy"

    30 00 00 00  12 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETLINK
    00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00
    0e 00 03 00  6b 75 62 65  2d 69 70 76  73 30 00 00    # IFLA_IFNAME

    20 00 00 00  10 00  01 00  00 00 00 00  00 00 00 00   # RTM_NEWLINK
    00 00 00 00  05 00 00 00  01 00 00 00  01 00 00 00    # index 5, flags IFF_UP, change IFF_UP

    20 00 00 00  11 00  01 00  00 00 00 00  00 00 00 00   # RTM_DELLINK
    00 00 00 00  05 00 00 00  00 00 00 00  00 00 00 00
  )"));
}

TEST(EncodeGetRoute, AsksForAPacketThatComesIn) {
  RouteQueryRecord query{};
  const uint8_t destination[] = {10, 244, 1, 10};
  const uint8_t source[] = {192, 0, 2, 10};
  memcpy(query.destination, destination, sizeof destination);
  memcpy(query.source, source, sizeof source);
  query.input_interface = 3;
  query.mark = 0x4000;
  query.destination_port = 8080;
  query.family = AF_INET;
  query.protocol = IPPROTO_TCP;
  std::vector<uint8_t> buffer(kMaxRequestBytes);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeGetRoute(builder, query));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    4c 00 00 00  1a 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETROUTE
    02 20 20 00  00 00 00 00  00 00 00 00                 # rtmsg: AF_INET, /32 from /32, all else zero
    08 00 01 00  0a f4 01 0a                              # RTA_DST
    08 00 02 00  c0 00 02 0a                              # RTA_SRC
    08 00 03 00  03 00 00 00                              # RTA_IIF
    08 00 10 00  00 40 00 00                              # RTA_MARK
    05 00 1b 00  06 00 00 00                              # RTA_IP_PROTO
    06 00 1d 00  1f 90 00 00                              # RTA_DPORT, network order
  )"));
}

TEST(EncodeGetRoute, LeavesOutWhatIsNotKnown) {
  RouteQueryRecord query{};
  query.destination[0] = 0xfd;
  query.family = AF_INET6;
  std::vector<uint8_t> buffer(kMaxRequestBytes);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeGetRoute(builder, query));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    30 00 00 00  1a 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETROUTE
    0a 80 00 00  00 00 00 00  00 00 00 00                 # rtmsg: AF_INET6, /128
    14 00 01 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00   # RTA_DST
  )"));
}

TEST(EncodeDumps, AreStrict) {
  std::vector<uint8_t> buffer(1024);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeDumpLocalRoutes(builder, AF_INET6));
  ASSERT_TRUE(EncodeDumpAddresses(builder, AF_INET, 3));
  ASSERT_TRUE(EncodeDumpLinks(builder));
  ASSERT_TRUE(EncodeDumpRules(builder, AF_INET));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    24 00 00 00  1a 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETROUTE
    0a 00 00 00  ff 00 00 02  00 00 00 00                 # table local, type local, all else zero
    08 00 0f 00  ff 00 00 00                              # RTA_TABLE 255
    18 00 00 00  16 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETADDR
    02 00 00 00  03 00 00 00                              # index 3
    20 00 00 00  12 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETLINK
    00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00
    1c 00 00 00  22 00  01 00  00 00 00 00  00 00 00 00   # RTM_GETRULE
    02 00 00 00  00 00 00 00  00 00 00 00                 # all but the family is zero
  )"));
}

}  // namespace
}  // namespace viaduct::route
