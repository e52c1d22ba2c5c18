#include "ipvs/decode.h"

#include <gtest/gtest.h>

#include "hex.h"
#include "ipvs_records.h"

namespace viaduct::ipvs {
namespace {

constexpr const char* kService = R"(
  01 01 00 00                 # genlmsghdr: IPVS_CMD_NEW_SERVICE
  c4 00 01 80                 # SERVICE, with NLA_F_NESTED
  06 00 01 00  02 00 00 00    #   AF
  06 00 02 00  11 00 00 00    #   PROTOCOL udp
  14 00 03 00  0a 60 00 0a  de ad be ef  00 00 00 00  00 00 00 00  # ADDR: the kernel sends 16 bytes
  06 00 04 00  00 35 00 00    #   PORT 53
  07 00 06 00  72 72 00 00    #   SCHED_NAME
  0c 00 07 00  03 00 00 00  ff ff ff ff  # FLAGS PERSISTENT | HASHED
  08 00 08 00  30 2a 00 00    #   TIMEOUT 10800
  08 00 09 00  ff ff ff 00    #   NETMASK /24
  30 00 0a 80                 #   STATS
  08 00 01 00  09 00 00 00    #     CONNS
  0c 00 04 00  01 00 00 00 00 00 00 00  # INBYTES
  0c 00 05 00  02 00 00 00 00 00 00 00  # OUTBYTES
  08 00 06 00  00 00 00 00    #     CPS: not read
  04 00 0b 00                 #     PAD
  40 00 0c 80                 #   STATS64
  0c 00 01 00  05 00 00 00 01 00 00 00  # CONNS 2^32 + 5
  0c 00 02 00  06 00 00 00 00 00 00 00  # INPKTS
  0c 00 03 00  07 00 00 00 00 00 00 00  # OUTPKTS
  0c 00 04 00  08 00 00 00 00 00 00 00  # INBYTES
  0c 00 05 00  09 00 00 00 00 00 00 00  # OUTBYTES
)";

TEST(DecodeService, ReadsSettingsAndCounters) {
  const auto entry = DecodeService(FromHex(kService));
  ASSERT_TRUE(entry);
  const VirtualServerRecord& server = entry->record;
  const uint8_t address[16] = {10, 96, 0, 10};
  EXPECT_EQ(memcmp(server.address, address, 16), 0) << "only the first four bytes are the IPv4 address";
  EXPECT_STREQ(server.scheduler, "rr");
  EXPECT_EQ(server.protocol, IPPROTO_UDP);
  EXPECT_EQ(server.port, 53);
  EXPECT_EQ(server.flags, uint32_t{IP_VS_SVC_F_PERSISTENT}) << "HASHED is the kernel's own";
  EXPECT_EQ(server.flags_mask, ~uint32_t{0});
  EXPECT_EQ(server.timeout_seconds, 10800U);
  EXPECT_EQ(server.netmask_length, 24);
  EXPECT_EQ(entry->counters.connections, (uint64_t{1} << 32) + 5);
  EXPECT_EQ(entry->counters.out_bytes, 9U);
}

TEST(DecodeService, EveryPrefixOfAMessageIsSafe) {
  const auto bytes = FromHex(kService);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(DecodeService(part)) << size;
  }
}

struct ServiceCase {
  const char* name;
  const char* bytes;
  bool decodes;
};

class ServiceKey : public testing::TestWithParam<ServiceCase> {};

TEST_P(ServiceKey, IsComplete) {
  EXPECT_EQ(DecodeService(FromHex(GetParam().bytes)).has_value(), GetParam().decodes);
}

INSTANTIATE_TEST_SUITE_P(
    All, ServiceKey,
    testing::Values(
        ServiceCase{"NoNest", "01 01 00 00", false},
        ServiceCase{"EmptyNest", "01 01 00 00 04 00 01 00", false},
        ServiceCase{"UnknownFamily",
                    "01 01 00 00 14 00 01 00 06 00 01 00 03 00 00 00 08 00 05 00 01 00 00 00", false},
        ServiceCase{"Mark", "01 01 00 00 14 00 01 00 06 00 01 00 02 00 00 00 08 00 05 00 01 00 00 00", true},
        ServiceCase{"FamilyOnly", "01 01 00 00 0c 00 01 00 06 00 01 00 02 00 00 00", false},
        ServiceCase{"ShortSixAddress",
                    "01 01 00 00 24 00 01 00 06 00 01 00 0a 00 00 00 06 00 02 00 06 00 00 00"
                    " 08 00 03 00 01 02 03 04 06 00 04 00 00 35 00 00",
                    false},
        ServiceCase{
            "SixNetmaskTooLong",
            "01 01 00 00 1c 00 01 00 06 00 01 00 0a 00 00 00 08 00 05 00 01 00 00 00 08 00 09 00 81 00 00 00",
            false},
        ServiceCase{
            "ShortFlags",
            "01 01 00 00 1c 00 01 00 06 00 01 00 02 00 00 00 08 00 05 00 01 00 00 00 08 00 07 00 01 00 00 00",
            false}),
    [](const auto& info) { return std::string(info.param.name); });

constexpr const char* kTunnel = R"(
  05 01 00 00                 # genlmsghdr: IPVS_CMD_NEW_DEST
  70 00 02 00                 # DEST
  14 00 01 00  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 05  # ADDR
  06 00 02 00  1f 90 00 00    #   PORT 8080
  08 00 03 00  02 01 00 00    #   FWD_METHOD: conn_flags, the method is the low three bits
  08 00 04 00  64 00 00 00    #   WEIGHT
  08 00 05 00  f4 01 00 00    #   U_THRESH
  08 00 06 00  90 01 00 00    #   L_THRESH
  08 00 07 00  03 00 00 00    #   ACTIVE_CONNS
  08 00 08 00  04 00 00 00    #   INACT_CONNS
  06 00 0b 00  0a 00 00 00    #   ADDR_FAMILY AF_INET6
  05 00 0d 00  01 00 00 00    #   TUN_TYPE GUE
  06 00 0e 00  17 c0 00 00    #   TUN_PORT 6080
  06 00 0f 00  01 00 00 00    #   TUN_FLAGS
)";

TEST(DecodeDestination, ReadsATunnelOfTheOtherFamily) {
  const auto entry = DecodeDestination(FromHex(kTunnel), AF_INET);
  ASSERT_TRUE(entry);
  const RealServerRecord wanted = TunnelBackend();
  EXPECT_EQ(memcmp(&entry->record, &wanted, sizeof wanted), 0);
  EXPECT_EQ(entry->counters.active_connections, 3U);
  EXPECT_EQ(entry->counters.inactive_connections, 4U);
}

TEST(DecodeDestination, EveryPrefixOfAMessageIsSafe) {
  const auto bytes = FromHex(kTunnel);
  for (size_t size = 0; size + 2 < bytes.size(); ++size) {  // the last two bytes are padding
    const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(DecodeDestination(part, AF_INET)) << size;
  }
}

TEST(DecodeDestination, WithoutFamilyItHasTheFamilyOfTheService) {
  const auto bytes = FromHex("05 01 00 00 14 00 02 00 08 00 01 00 0a f4 01 05 06 00 02 00 1f 90 00 00");
  const auto entry = DecodeDestination(bytes, AF_INET);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->record.family, AF_INET);
  EXPECT_FALSE(DecodeDestination(bytes, AF_INET6)) << "four bytes are no IPv6 address";
}

TEST(DecodeFamilyId, RequiresAnId) {
  EXPECT_EQ(DecodeFamilyId(FromHex("01 02 00 00 06 00 01 00 1c 00 00 00")), 0x1c);
  EXPECT_FALSE(DecodeFamilyId(FromHex("01 02 00 00")));
  EXPECT_FALSE(DecodeFamilyId(FromHex("01 02 00")));
}

TEST(DecodeTimeouts, ReadsAllThree) {
  const auto timeouts = DecodeTimeouts(
      FromHex("0c 01 00 00 08 00 04 00 84 03 00 00 08 00 05 00 78 00 00 00 08 00 06 00 2c 01 00 00"));
  ASSERT_TRUE(timeouts);
  EXPECT_EQ(timeouts->tcp_seconds, 900U);
  EXPECT_EQ(timeouts->tcp_fin_seconds, 120U);
  EXPECT_EQ(timeouts->udp_seconds, 300U);
  EXPECT_FALSE(DecodeTimeouts(FromHex("0c 01 00 00 06 00 04 00 84 03 00 00")));
}

}  // namespace
}  // namespace viaduct::ipvs
