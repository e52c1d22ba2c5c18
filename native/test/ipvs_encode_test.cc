#include "ipvs/encode.h"

#include <gtest/gtest.h>

#include "hex.h"
#include "ipvs_records.h"

namespace viaduct::ipvs {
namespace {

constexpr Envelope kEnvelope{0x1c, 7};

struct GoldenCase {
  const char* name;
  Op op;
  VirtualServerRecord server;
  RealServerRecord real;
  const char* bytes;
};

class IpvsEncode : public testing::TestWithParam<GoldenCase> {};

TEST_P(IpvsEncode, MatchesTheKernelsLayout) {
  std::vector<uint8_t> buffer(kMaxOperationBytes);
  MessageBuilder builder(buffer);
  const OpRecord op{0, 0, GetParam().op, {}};
  ASSERT_TRUE(
      EncodeOperation(builder, kEnvelope, {{&op, 1}, {&GetParam().server, 1}, {&GetParam().real, 1}}, op));
  EXPECT_TRUE(HasBytes(builder.sealed(), GetParam().bytes));
}

constexpr const char* kAddWeb = R"(
  68 00 00 00  1c 00  01 00   # nlmsg_len 104, family id, NLM_F_REQUEST
  07 00 00 00  00 00 00 00    # sequence, port
  01 01 00 00                 # IPVS_CMD_NEW_SERVICE, version 1
  54 00 01 00                 # IPVS_CMD_ATTR_SERVICE, without NLA_F_NESTED
  06 00 01 00  02 00 00 00    #   AF AF_INET
  06 00 02 00  06 00 00 00    #   PROTOCOL tcp
  14 00 03 00  0a 60 00 0a  00 00 00 00  00 00 00 00  00 00 00 00  # ADDR 10.96.0.10
  06 00 04 00  00 50 00 00    #   PORT 80, network order
  07 00 06 00  72 72 00 00    #   SCHED_NAME "rr"
  0c 00 07 00  00 00 00 00  ff ff ff ff  # FLAGS 0, mask ~0
  08 00 08 00  00 00 00 00    #   TIMEOUT 0
  08 00 09 00  ff ff ff ff    #   NETMASK /32
)";

constexpr const char* kSetSix = R"(
  68 00 00 00  1c 00  01 00
  07 00 00 00  00 00 00 00
  02 01 00 00                 # IPVS_CMD_SET_SERVICE
  54 00 01 00                 # SERVICE
  06 00 01 00  0a 00 00 00    #   AF AF_INET6
  06 00 02 00  84 00 00 00    #   PROTOCOL sctp
  14 00 03 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a  # ADDR fd00::a
  06 00 04 00  00 35 00 00    #   PORT 53
  07 00 06 00  73 68 00 00    #   SCHED_NAME "sh"
  0c 00 07 00  10 00 00 00  10 00 00 00  # FLAGS sh-port, mask sh-port
  08 00 08 00  00 00 00 00    #   TIMEOUT 0
  08 00 09 00  80 00 00 00    #   NETMASK: prefix length 128, host order
)";

constexpr const char* kAddMark = R"(
  4c 00 00 00  1c 00  01 00
  07 00 00 00  00 00 00 00
  01 01 00 00                 # IPVS_CMD_NEW_SERVICE
  38 00 01 00                 # SERVICE
  06 00 01 00  02 00 00 00    #   AF AF_INET
  08 00 05 00  77 00 00 00    #   FWMARK 0x77, host order
  08 00 06 00  77 72 72 00    #   SCHED_NAME "wrr"
  0c 00 07 00  01 00 00 00  ff ff ff ff  # FLAGS PERSISTENT
  08 00 08 00  30 2a 00 00    #   TIMEOUT 10800
  08 00 09 00  ff ff ff 00    #   NETMASK 255.255.255.0, network order
)";

constexpr const char* kRemoveWeb = R"(
  44 00 00 00  1c 00  01 00
  07 00 00 00  00 00 00 00
  03 01 00 00                 # IPVS_CMD_DEL_SERVICE: the key alone
  30 00 01 00                 # SERVICE
  06 00 01 00  02 00 00 00    #   AF
  06 00 02 00  06 00 00 00    #   PROTOCOL
  14 00 03 00  0a 60 00 0a  00 00 00 00  00 00 00 00  00 00 00 00  # ADDR
  06 00 04 00  00 50 00 00    #   PORT
)";

constexpr const char* kZeroMark = R"(
  28 00 00 00  1c 00  01 00
  07 00 00 00  00 00 00 00
  10 01 00 00                 # IPVS_CMD_ZERO
  14 00 01 00                 # SERVICE
  06 00 01 00  02 00 00 00    #   AF
  08 00 05 00  77 00 00 00    #   FWMARK
)";

constexpr const char* kAddBackend = R"(
  84 00 00 00  1c 00  01 00   # nlmsg_len 132
  07 00 00 00  00 00 00 00
  05 01 00 00                 # IPVS_CMD_NEW_DEST
  30 00 01 00                 # SERVICE: the key
  06 00 01 00  02 00 00 00    #   AF
  06 00 02 00  06 00 00 00    #   PROTOCOL
  14 00 03 00  0a 60 00 0a  00 00 00 00  00 00 00 00  00 00 00 00  # ADDR
  06 00 04 00  00 50 00 00    #   PORT
  40 00 02 00                 # DEST
  14 00 01 00  0a f4 01 05  00 00 00 00  00 00 00 00  00 00 00 00  # ADDR 10.244.1.5
  06 00 02 00  1f 90 00 00    #   PORT 8080
  08 00 03 00  00 00 00 00    #   FWD_METHOD masquerade
  08 00 04 00  01 00 00 00    #   WEIGHT 1
  08 00 05 00  00 00 00 00    #   U_THRESH
  08 00 06 00  00 00 00 00    #   L_THRESH
)";

constexpr const char* kSetTunnelInMark = R"(
  88 00 00 00  1c 00  01 00
  07 00 00 00  00 00 00 00
  06 01 00 00                 # IPVS_CMD_SET_DEST
  14 00 01 00                 # SERVICE: the key
  06 00 01 00  02 00 00 00    #   AF AF_INET
  08 00 05 00  77 00 00 00    #   FWMARK
  60 00 02 00                 # DEST
  14 00 01 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 05  # ADDR fd00::5
  06 00 02 00  1f 90 00 00    #   PORT 8080
  08 00 03 00  02 00 00 00    #   FWD_METHOD tunnel
  08 00 04 00  64 00 00 00    #   WEIGHT 100
  08 00 05 00  f4 01 00 00    #   U_THRESH 500
  08 00 06 00  90 01 00 00    #   L_THRESH 400
  05 00 0d 00  01 00 00 00    #   TUN_TYPE GUE
  06 00 0e 00  17 c0 00 00    #   TUN_PORT 6080, network order
  06 00 0f 00  01 00 00 00    #   TUN_FLAGS CSUM
  06 00 0b 00  0a 00 00 00    #   ADDR_FAMILY AF_INET6, since the service is IPv4
)";

constexpr const char* kRemoveBackend = R"(
  64 00 00 00  1c 00  01 00
  07 00 00 00  00 00 00 00
  07 01 00 00                 # IPVS_CMD_DEL_DEST
  30 00 01 00                 # SERVICE: the key
  06 00 01 00  02 00 00 00    #   AF
  06 00 02 00  06 00 00 00    #   PROTOCOL
  14 00 03 00  0a 60 00 0a  00 00 00 00  00 00 00 00  00 00 00 00  # ADDR
  06 00 04 00  00 50 00 00    #   PORT
  20 00 02 00                 # DEST: the key
  14 00 01 00  0a f4 01 05  00 00 00 00  00 00 00 00  00 00 00 00  # ADDR
  06 00 02 00  1f 90 00 00    #   PORT
)";

INSTANTIATE_TEST_SUITE_P(
    Golden, IpvsEncode,
    testing::Values(
        GoldenCase{"AddVirtualServer", Op::kAddVirtualServer, WebServer(), {}, kAddWeb},
        GoldenCase{"SetVirtualServerSix", Op::kSetVirtualServer, SixServer(), {}, kSetSix},
        GoldenCase{"AddMarkPersistent", Op::kAddVirtualServer, MarkServer(), {}, kAddMark},
        GoldenCase{"RemoveVirtualServer", Op::kRemoveVirtualServer, WebServer(), {}, kRemoveWeb},
        GoldenCase{"ZeroVirtualServer", Op::kZeroVirtualServer, MarkServer(), {}, kZeroMark},
        GoldenCase{"AddRealServer", Op::kAddRealServer, WebServer(), WebBackend(), kAddBackend},
        GoldenCase{"SetTunnel", Op::kSetRealServer, MarkServer(), TunnelBackend(), kSetTunnelInMark},
        GoldenCase{"RemoveRealServer", Op::kRemoveRealServer, WebServer(), WebBackend(), kRemoveBackend}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(IpvsEncodeLimits, LargestOperationFits) {
  VirtualServerRecord server = SixServer();
  SetScheduler(server, "fifteen-letters");
  const RealServerRecord real = TunnelBackend();
  server.family = AF_INET;  // so that ADDR_FAMILY is sent too
  for (const Op code : {Op::kAddVirtualServer, Op::kAddRealServer}) {
    std::vector<uint8_t> buffer(kMaxOperationBytes);
    MessageBuilder builder(buffer);
    const OpRecord op{0, 0, code, {}};
    EXPECT_TRUE(EncodeOperation(builder, kEnvelope, {{&op, 1}, {&server, 1}, {&real, 1}}, op));
  }
}

TEST(IpvsEncodeMasks, Ipv4NetmaskOfEveryLength) {
  const std::pair<uint8_t, const char*> cases[] = {
      {0, "00 00 00 00"}, {1, "80 00 00 00"}, {20, "ff ff f0 00"}, {31, "ff ff ff fe"}};
  for (const auto& [length, mask] : cases) {
    VirtualServerRecord server = WebServer();
    server.netmask_length = length;
    std::vector<uint8_t> buffer(kMaxOperationBytes);
    MessageBuilder builder(buffer);
    const OpRecord op{0, 0, Op::kAddVirtualServer, {}};
    ASSERT_TRUE(EncodeOperation(builder, kEnvelope, {{&op, 1}, {&server, 1}, {}}, op));
    EXPECT_TRUE(HasBytes(builder.sealed().last(4), mask)) << int{length};
  }
}

TEST(IpvsEncodeRequests, FamilyLookup) {
  std::vector<uint8_t> buffer(64);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeFindFamily(builder));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    20 00 00 00  10 00  01 00  00 00 00 00  00 00 00 00  # GENL_ID_CTRL
    03 01 00 00                                          # CTRL_CMD_GETFAMILY, version 1
    09 00 02 00  49 50 56 53 00 00 00 00                 # FAMILY_NAME "IPVS"
  )"));
}

TEST(IpvsEncodeRequests, DumpsAndTimeouts) {
  std::vector<uint8_t> buffer(512);
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeDumpServices(builder, 0x1c));
  ASSERT_TRUE(EncodeGetService(builder, 0x1c, MarkServer()));
  ASSERT_TRUE(EncodeDumpDestinations(builder, 0x1c, MarkServer()));
  ASSERT_TRUE(EncodeGetTimeouts(builder, 0x1c));
  ASSERT_TRUE(EncodeSetTimeouts(builder, 0x1c, {900, 120, 300}));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    14 00 00 00  1c 00  01 00  00 00 00 00  00 00 00 00
    04 01 00 00                 # IPVS_CMD_GET_SERVICE
    28 00 00 00  1c 00  01 00  00 00 00 00  00 00 00 00
    04 01 00 00                 # IPVS_CMD_GET_SERVICE of one
    14 00 01 00                 # SERVICE
    06 00 01 00  02 00 00 00    #   AF
    08 00 05 00  77 00 00 00    #   FWMARK
    28 00 00 00  1c 00  01 00  00 00 00 00  00 00 00 00
    08 01 00 00                 # IPVS_CMD_GET_DEST
    14 00 01 00                 # SERVICE
    06 00 01 00  02 00 00 00    #   AF
    08 00 05 00  77 00 00 00    #   FWMARK
    14 00 00 00  1c 00  01 00  00 00 00 00  00 00 00 00
    0d 01 00 00                 # IPVS_CMD_GET_CONFIG
    2c 00 00 00  1c 00  01 00  00 00 00 00  00 00 00 00
    0c 01 00 00                 # IPVS_CMD_SET_CONFIG
    08 00 04 00  84 03 00 00    # TIMEOUT_TCP 900
    08 00 05 00  78 00 00 00    # TIMEOUT_TCP_FIN 120
    08 00 06 00  2c 01 00 00    # TIMEOUT_UDP 300
  )"));
}

}  // namespace
}  // namespace viaduct::ipvs
