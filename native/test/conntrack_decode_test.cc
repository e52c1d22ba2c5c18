#include "conntrack/decode.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

#include "hex.h"

namespace viaduct::conntrack {
namespace {

const std::string kTuples = R"(
  34 00 01 80                                        # TUPLE_ORIG
  14 00 01 80                                        #   IP
  08 00 01 00  0a f4 00 09  08 00 02 00  0a 60 00 0a #     V4_SRC 10.244.0.9, V4_DST 10.96.0.10
  1c 00 02 80                                        #   PROTO
  05 00 01 00  11 00 00 00                           #     NUM udp
  06 00 02 00  9c 40 00 00  06 00 03 00  00 35 00 00 #     SRC_PORT 40000, DST_PORT 53
  34 00 02 80                                        # TUPLE_REPLY
  14 00 01 80                                        #   IP
  08 00 01 00  0a f4 01 05  08 00 02 00  0a f4 00 09 #     V4_SRC 10.244.1.5, V4_DST 10.244.0.9
  1c 00 02 80                                        #   PROTO
  05 00 01 00  11 00 00 00
  06 00 02 00  14 e9 00 00  06 00 03 00  9c 40 00 00 #     SRC_PORT 5353
)";
const std::string kHeader = "02 00 00 00  # nfgenmsg\n";

TEST(DecodeFlow, ReadsTheTupleAndId) {
  const auto flow = DecodeFlow(FromHex(kHeader + kTuples + R"(
    08 00 03 00  00 00 00 28   # STATUS, which we do not read
    08 00 0c 00  72 28 1c e9   # ID
  )"));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->family, AF_INET);
  EXPECT_EQ(flow->original.source.address[3], 9);
  EXPECT_EQ(flow->original.source.port, 40000);
  EXPECT_EQ(flow->original.destination.address[3], 10);
  EXPECT_EQ(flow->original.destination.port, 53);
  EXPECT_EQ(flow->original.protocol, IPPROTO_UDP);
  EXPECT_EQ(flow->reply_source.address[3], 5);
  EXPECT_EQ(flow->reply_source.port, 5353);
  ASSERT_TRUE(flow->id_be);
  EXPECT_EQ(be32toh(*flow->id_be), 0x72281ce9U);
  EXPECT_FALSE(flow->zone);
  EXPECT_FALSE(flow->original.zone);
  EXPECT_EQ(flow->tcp_state, 0);
}

TEST(DecodeFlow, ReadsTimeoutAndStateOfTcp) {
  const auto flow = DecodeFlow(FromHex(kHeader + kTuples + R"(
    30 00 04 80  2c 00 01 80   # PROTOINFO, TCP
    05 00 01 00  03 00 00 00   #   STATE established
    05 00 02 00  07 00 00 00   #   WSCALE_ORIGINAL, which we do not read
    05 00 03 00  07 00 00 00
    06 00 04 00  23 00 00 00
    06 00 05 00  23 00 00 00
    08 00 07 00  00 06 97 80   # TIMEOUT 432000
  )"));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->tcp_state, 3);
  EXPECT_EQ(flow->timeout_seconds, 432000U);
}

TEST(DecodeFlow, ReadsTheZoneOfBothDirections) {
  const auto flow = DecodeFlow(FromHex(kHeader + kTuples + "06 00 12 00 00 07 00 00"));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->zone, 7);
  EXPECT_FALSE(flow->id_be);
}

TEST(DecodeFlow, ReadsIpv6AndTheZoneOfOneDirection) {
  const auto flow = DecodeFlow(FromHex(R"(
    0a 00 00 00
    54 00 01 80                  # TUPLE_ORIG
    2c 00 01 80                  #   IP
    14 00 03 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 01
    14 00 04 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a
    1c 00 02 80                  #   PROTO
    05 00 01 00  84 00 00 00  06 00 02 00  00 01 00 00  06 00 03 00  00 02 00 00
    06 00 03 00  00 08 00 00     #   ZONE 8
    4c 00 02 80                  # TUPLE_REPLY
    2c 00 01 80
    14 00 03 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 05
    14 00 04 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 01
    1c 00 02 80
    05 00 01 00  84 00 00 00  06 00 02 00  00 03 00 00  06 00 03 00  00 01 00 00
  )"));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->family, AF_INET6);
  EXPECT_EQ(flow->original.protocol, IPPROTO_SCTP);
  EXPECT_EQ(flow->original.destination.address[15], 10);
  EXPECT_EQ(flow->reply_source.address[15], 5);
  EXPECT_EQ(flow->original.zone, 8);
  EXPECT_FALSE(flow->zone);
}

/// ICMP has an id instead of ports.
constexpr const char* kPing = R"(
  02 00 00 00
  24 00 01 80  14 00 01 80  08 00 01 00  0a f4 00 09  08 00 02 00  0a 60 00 0a
  0c 00 02 80  05 00 01 00  01 00 00 00
  24 00 02 80  14 00 01 80  08 00 01 00  0a 60 00 0a  08 00 02 00  0a f4 00 09
  0c 00 02 80  05 00 01 00  01 00 00 00
)";

TEST(DecodeFlow, ReadsFlowsWithoutPorts) {
  const auto flow = DecodeFlow(FromHex(kPing));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->original.protocol, IPPROTO_ICMP);
  EXPECT_EQ(flow->original.destination.port, 0);
}

TEST(DecodeFlow, RefusesIncompleteMessages) {
  EXPECT_FALSE(DecodeFlow(FromHex("02 00 00"))) << "short header";
  EXPECT_FALSE(DecodeFlow(FromHex(kHeader))) << "no tuples";
  EXPECT_FALSE(DecodeFlow(FromHex("05 00 00 00\n" + kTuples))) << "unknown family";
  EXPECT_FALSE(DecodeFlow(FromHex("0a 00 00 00\n" + kTuples))) << "IPv4 addresses in an IPv6 flow";
  const auto whole = FromHex(kHeader + kTuples);
  EXPECT_FALSE(DecodeFlow(std::span(whole).first(4 + 0x34))) << "no reply";
  auto without_ports = FromHex(kPing);
  for (size_t i = 0; i + 4 < without_ports.size(); ++i)
    if (without_ports[i] == 5 && without_ports[i + 2] == 1) without_ports[i + 4] = IPPROTO_UDP;
  EXPECT_FALSE(DecodeFlow(without_ports)) << "UDP without ports";
}

}  // namespace
}  // namespace viaduct::conntrack
