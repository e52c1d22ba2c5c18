#include "conntrack/encode.h"

#include <gtest/gtest.h>

#include "conntrack_flows.h"
#include "hex.h"

namespace viaduct::conntrack {
namespace {

class ConntrackEncode : public testing::Test {
 protected:
  RequestBuffer<kMaxRequestBytes> buffer;
  MessageBuilder builder{buffer};
};

TEST_F(ConntrackEncode, DumpOfAFamily) {
  ASSERT_TRUE(EncodeDump(builder, AF_INET6));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    14 00 00 00  01 01  01 00  00 00 00 00  00 00 00 00   # IPCTNL_MSG_CT_GET, NLM_F_REQUEST
    0a 00 00 00                                           # nfgenmsg
  )"));
}

TEST_F(ConntrackEncode, FilteredDumpOfAnAddress) {
  ASSERT_TRUE(EncodeFilteredDump(builder, AF_INET, MakeFrontend(AF_INET, 10, 53, 0)));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    4c 00 00 00  01 01  01 00  00 00 00 00  00 00 00 00
    02 00 00 00
    24 00 01 80                                           # TUPLE_ORIG
    0c 00 01 80  08 00 02 00  0a 60 00 0a                 #   IP { V4_DST }
    14 00 02 80  05 00 01 00  11 00 00 00  06 00 03 00  00 35 00 00   # PROTO { NUM, DST_PORT }
    14 00 19 80                                           # FILTER
    08 00 01 00  2a 00 00 00                              #   ORIG_FLAGS IP_DST | PROTO_NUM | DST_PORT, host order
    08 00 02 00  00 00 00 00                              #   REPLY_FLAGS
  )"));
}

constexpr const char* kByPort = R"(
    14 00 02 80  05 00 01 00  11 00 00 00  06 00 03 00  75 65 00 00
    14 00 19 80
    08 00 01 00  28 00 00 00                              #   ORIG_FLAGS PROTO_NUM | DST_PORT
    08 00 02 00  00 00 00 00
)";

TEST_F(ConntrackEncode, FilteredDumpOfANodePort) {
  ASSERT_TRUE(EncodeFilteredDump(builder, AF_INET, MakeNodePort(30053, 0)));
  EXPECT_TRUE(HasBytes(builder.sealed(), std::string(R"(
    40 00 00 00  01 01  01 00  00 00 00 00  00 00 00 00
    02 00 00 00
    18 00 01 80
  )") + kByPort));
}

TEST_F(ConntrackEncode, FilteredDumpOfAnIpv6AddressIsByPort) {
  const FrontendRecord frontend = MakeFrontend(AF_INET6, 10, 30053, 0);
  ASSERT_TRUE(EncodeFilteredDump(builder, AF_INET6, frontend));
  EXPECT_TRUE(HasBytes(builder.sealed(), std::string(R"(
    40 00 00 00  01 01  01 00  00 00 00 00  00 00 00 00
    0a 00 00 00
    18 00 01 80
  )") + kByPort));
  EXPECT_TRUE(IsWithinFilter(frontend, MakeFlow(AF_INET6, 11, 30053, 20)));
}

TEST_F(ConntrackEncode, MatchesFlowsWithTheFilterOfADump) {
  const FrontendRecord frontend = MakeFrontend(AF_INET, 10, 53, 0);
  EXPECT_TRUE(IsWithinFilter(frontend, MakeFlow(AF_INET, 10, 53, 20)));
  EXPECT_FALSE(IsWithinFilter(frontend, MakeFlow(AF_INET, 11, 53, 20)));
  EXPECT_FALSE(IsWithinFilter(frontend, MakeFlow(AF_INET, 10, 54, 20)));
  EXPECT_TRUE(IsWithinFilter(MakeNodePort(53, 0), MakeFlow(AF_INET, 11, 53, 20)));
  Flow tcp = MakeFlow(AF_INET, 10, 53, 20);
  tcp.original.protocol = IPPROTO_TCP;
  EXPECT_FALSE(IsWithinFilter(frontend, tcp));
}

TEST_F(ConntrackEncode, DeletionByTupleAndId) {
  Flow flow = MakeFlow(AF_INET, 10, 53, 20);
  flow.id_be = htobe32(0x01020304);
  ASSERT_TRUE(EncodeDelete(builder, 7, flow));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    50 00 00 00  02 01  01 00  07 00 00 00  00 00 00 00   # IPCTNL_MSG_CT_DELETE
    02 00 00 00
    34 00 01 80                                           # TUPLE_ORIG
    14 00 01 80  08 00 01 00  0a 60 00 01  08 00 02 00  0a 60 00 0a
    1c 00 02 80  05 00 01 00  11 00 00 00  06 00 02 00  03 e8 00 00  06 00 03 00  00 35 00 00
    08 00 0c 00  01 02 03 04                              # ID
  )"));
}

TEST_F(ConntrackEncode, DeletionInZones) {
  Flow flow = MakeFlow(AF_INET6, 10, 53, 20);
  flow.zone = 7;
  flow.original.zone = 8;
  ASSERT_TRUE(EncodeDelete(builder, 7, flow));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    70 00 00 00  02 01  01 00  07 00 00 00  00 00 00 00
    0a 00 00 00
    54 00 01 80
    2c 00 01 80
    14 00 03 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 01
    14 00 04 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a
    1c 00 02 80  05 00 01 00  11 00 00 00  06 00 02 00  03 e8 00 00  06 00 03 00  00 35 00 00
    06 00 03 00  00 08 00 00                              #   TUPLE_ZONE
    06 00 12 00  00 07 00 00                              # ZONE
  )"));
}

}  // namespace
}  // namespace viaduct::conntrack
