#include "route/decode.h"

#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include <string>

#include "hex.h"

namespace viaduct::route {
namespace {

constexpr const char* kRoute = R"(
  02 20 00 10  ff ad fe 02  00 00 00 00   # rtmsg, TOS 0x10
  08 00 0f 00  ff 00 00 00                # TABLE
  08 00 01 00  0a 60 00 0a                # DST
  08 00 07 00  c0 a8 01 02                # PREFSRC
  08 00 04 00  01 00 00 00                # OIF
)";

TEST(DecodeRoute, ReadsAll) {
  const auto route = DecodeRoute(FromHex(kRoute));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->destination[3], 10);
  EXPECT_EQ(route->preferred_source[0], 192);
  EXPECT_EQ(route->interface_index, 1U);
  EXPECT_EQ(route->table, 255U);
  EXPECT_EQ(route->protocol, 173);
  EXPECT_EQ(route->type, RTN_LOCAL);
  EXPECT_EQ(route->prefix_length, 32);
  EXPECT_EQ(route->tos, 0x10);
  EXPECT_EQ(route->op, Op::kNone);
}

TEST(DecodeRoute, DefaultRouteHasNoDestination) {
  EXPECT_TRUE(DecodeRoute(FromHex("02 00 00 00 fe 02 00 01 00 00 00 00")));
}

TEST(DecodeRoute, RefusesIncompleteMessages) {
  EXPECT_FALSE(DecodeRoute(FromHex("02 20 00 00 ff ad fe 02 00 00 00 00"))) << "no destination";
  EXPECT_FALSE(DecodeRoute(FromHex("0a 80 00 00 ff ad fe 02 00 00 00 00 08 00 01 00 01 02 03 04")))
      << "IPv4 address in an IPv6 route";
  EXPECT_FALSE(DecodeRoute(FromHex("02 20 00 00 ff ad fe 02 00 00 00"))) << "short header";
  EXPECT_FALSE(DecodeRoute(FromHex("02 20 00 00 ff ad fe 02 00 00 00 00 07 00 01 00 01 02 03 00")))
      << "short address";
  EXPECT_FALSE(DecodeRoute(FromHex("05 20 00 00 ff ad fe 02 00 00 00 00 08 00 01 00 01 02 03 04")))
      << "unknown family";
}

TEST(DecodeNextHops, ReadsTheGateway) {
  const auto hops = DecodeNextHops(FromHex(R"(
    02 00 00 00  fe 03 00 01  00 00 00 00   # rtmsg: a default route
    08 00 05 00  c0 00 02 01                # GATEWAY
    08 00 04 00  03 00 00 00                # OIF
  )"));
  ASSERT_TRUE(hops);
  ASSERT_EQ(hops->size(), 1U);
  EXPECT_EQ(hops->front().address[0], 192);
  EXPECT_EQ(hops->front().address[3], 1);
  EXPECT_EQ(hops->front().interface_index, 3U);
  EXPECT_EQ(hops->front().prefix_length, 32);
  EXPECT_EQ(hops->front().family, AF_INET);
}

TEST(DecodeNextHops, ReadsEachPathOfAMultipathRoute) {
  const auto hops = DecodeNextHops(FromHex(R"(
    02 18 00 00  fe 03 00 01  00 00 00 00
    08 00 01 00  0a f4 02 00                # DST
    24 00 09 00                             # MULTIPATH
    10 00 00 00  03 00 00 00  08 00 05 00  c0 00 02 0b    # rtnexthop, GATEWAY
    10 00 00 01  04 00 00 00  08 00 05 00  c0 00 02 0c
  )"));
  ASSERT_TRUE(hops);
  ASSERT_EQ(hops->size(), 2U);
  EXPECT_EQ(hops->at(0).address[3], 11);
  EXPECT_EQ(hops->at(1).address[3], 12);
  EXPECT_EQ(hops->at(1).interface_index, 4U);
}

TEST(DecodeNextHops, AHostRouteWithoutANextHopLeadsToItsDestination) {
  constexpr const char* kToPod = R"(
    02 20 00 00  fe 03 fd 01  00 00 00 00
    08 00 01 00  0a f4 01 05                # DST
    08 00 04 00  07 00 00 00                # OIF
  )";
  const auto hops = DecodeNextHops(FromHex(kToPod));
  ASSERT_TRUE(hops);
  ASSERT_EQ(hops->size(), 1U);
  EXPECT_EQ(hops->front().address[3], 5);
  const auto by_other_family = DecodeNextHops(FromHex(std::string(kToPod) + R"(
    16 00 12 00  0a 00 fe 80 00 00 00 00 00 00 00 00 00 00 00 00 00 01    # VIA
  )"));
  ASSERT_TRUE(by_other_family);
  EXPECT_TRUE(by_other_family->empty());
}

TEST(DecodeNextHops, OtherRoutesNameNone) {
  const auto connected =
      DecodeNextHops(FromHex("02 18 00 00 fe 02 fd 01 00 00 00 00 08 00 01 00 c0 00 02 00"));
  ASSERT_TRUE(connected);
  EXPECT_TRUE(connected->empty());
  const auto local = DecodeNextHops(FromHex(kRoute));
  ASSERT_TRUE(local);
  EXPECT_TRUE(local->empty());
  const auto cached = DecodeNextHops(FromHex("02 20 00 00 fe 02 fd 01 00 02 00 00 08 00 01 00 c0 00 02 09"));
  ASSERT_TRUE(cached);
  EXPECT_TRUE(cached->empty());
}

TEST(DecodeNextHops, RefusesMalformedMessages) {
  EXPECT_FALSE(DecodeNextHops(FromHex("02 00 00 00 fe 03 00 01"))) << "short header";
  EXPECT_FALSE(DecodeNextHops(FromHex("0a 00 00 00 fe 03 00 01 00 00 00 00 08 00 05 00 c0 00 02 01")))
      << "IPv4 gateway in an IPv6 route";
  EXPECT_FALSE(
      DecodeNextHops(FromHex("02 00 00 00 fe 03 00 01 00 00 00 00 0c 00 09 00 ff 00 00 00 03 00 00 00")))
      << "a next hop longer than its list";
  EXPECT_FALSE(
      DecodeNextHops(FromHex("02 00 00 00 fe 03 00 01 00 00 00 00 0c 00 09 00 04 00 00 00 03 00 00 00")))
      << "a next hop shorter than its header";
}

TEST(DecodeAddress, PrefersTheLocalOne) {
  const auto address = DecodeAddress(FromHex(R"(
    02 18 80 00  03 00 00 00
    08 00 01 00  0a 00 00 02    # ADDRESS: the peer
    08 00 02 00  0a 00 00 01    # LOCAL
    08 00 08 00  80 02 00 00    # FLAGS PERMANENT | NOPREFIXROUTE: more than fit the header
  )"));
  ASSERT_TRUE(address);
  EXPECT_EQ(address->address[3], 1);
  EXPECT_EQ(address->prefix_length, 24);
  EXPECT_EQ(address->interface_index, 3U);
  EXPECT_EQ(address->flags, uint32_t{IFA_F_PERMANENT | IFA_F_NOPREFIXROUTE});
}

TEST(DecodeAddress, NeedsAnAddressOfItsFamily) {
  EXPECT_FALSE(DecodeAddress(FromHex("02 18 80 00 03 00 00 00")));
  EXPECT_FALSE(DecodeAddress(FromHex("0a 40 80 00 03 00 00 00 08 00 01 00 0a 00 00 02")));
}

constexpr const char* kLink = R"(
  00 00 01 00  05 00 00 00  82 00 00 00  00 00 00 00   # ifinfomsg: index 5, BROADCAST | NOARP
  0f 00 03 00  6b 75 62 65  2d 69 70 76  73 30 00 00   # IFNAME "kube-ipvs0"
  10 00 12 00                                          # LINKINFO
  0a 00 01 00  64 75 6d 6d  79 00 00 00                #   INFO_KIND "dummy"
)";

TEST(DecodeLink, ReadsNameAndKind) {
  const auto link = DecodeLink(FromHex(kLink));
  ASSERT_TRUE(link);
  EXPECT_STREQ(link->name, "kube-ipvs0");
  EXPECT_STREQ(link->kind, "dummy");
  EXPECT_EQ(link->index, 5U);
  EXPECT_EQ(link->flags & IFF_UP, 0U);
}

TEST(DecodeLink, RefusesIncompleteMessages) {
  EXPECT_FALSE(DecodeLink(FromHex("00 00 01 00 05 00 00 00 00 00 00 00 00 00 00 00"))) << "no name";
  EXPECT_FALSE(DecodeLink(FromHex("00 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00 06 00 03 00 6c 6f 00 00")))
      << "no index";
}

TEST(DecodeRule, ReadsMarkTableAndAction) {
  const auto rule = DecodeRule(FromHex(R"(
    02 00 00 00  fc 00 00 01  02 00 00 00   # fib_rule_hdr: table compat, FR_ACT_TO_TBL, FIB_RULE_INVERT
    08 00 06 00  64 00 00 00                # PRIORITY 100
    08 00 0a 00  00 40 00 00                # FWMARK
    08 00 10 00  00 40 00 00                # FWMASK
    08 00 0f 00  e9 03 00 00                # TABLE 1001: more than fits the header
  )"));
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->priority, 100U);
  EXPECT_EQ(rule->mark, 0x4000U);
  EXPECT_EQ(rule->mark_mask, 0x4000U);
  EXPECT_EQ(rule->table, 1001U);
  EXPECT_EQ(rule->action, RuleAction::kTable);
  EXPECT_EQ(rule->family, AF_INET);
  EXPECT_EQ(rule->is_inverted, 1);
}

TEST(DecodeRule, TakesWhatIsLeftOutAsZero) {
  const auto rule = DecodeRule(FromHex("0a 00 00 00 ff 00 00 06 00 00 00 00"));
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->priority, 0U);
  EXPECT_EQ(rule->mark_mask, 0U);
  EXPECT_EQ(rule->table, 255U);
  EXPECT_EQ(rule->action, RuleAction::kBlackhole);
  EXPECT_EQ(rule->is_inverted, 0);
}

TEST(DecodeRule, RefusesMalformedMessages) {
  EXPECT_FALSE(DecodeRule(FromHex("02 00 00 00 fe 00 00 01 00 00 00"))) << "short header";
  EXPECT_FALSE(DecodeRule(FromHex("02 00 00 00 fe 00 00 01 00 00 00 00 06 00 0a 00 01 00 00 00")))
      << "short mark";
}

TEST(DecodeEvent, DistinguishesLinksAndAddresses) {
  const auto link = DecodeEvent(RTM_DELLINK, FromHex(kLink));
  ASSERT_TRUE(link);
  EXPECT_EQ(link->kind, EventKind::kLink);
  EXPECT_EQ(link->op, Op::kRemove);
  EXPECT_STREQ(link->name, "kube-ipvs0");

  const auto address = DecodeEvent(RTM_NEWADDR, FromHex("02 20 80 00 03 00 00 00 08 00 02 00 0a 00 00 01"));
  ASSERT_TRUE(address);
  EXPECT_EQ(address->kind, EventKind::kAddress);
  EXPECT_EQ(address->op, Op::kAdd);
  EXPECT_EQ(address->family, AF_INET);
  EXPECT_EQ(address->prefix_length, 32);
  EXPECT_EQ(address->address[3], 1);

  EXPECT_FALSE(DecodeEvent(RTM_NEWROUTE, FromHex(kRoute)));
}

}  // namespace
}  // namespace viaduct::route
