#include "core/debug.h"

#include <gtest/gtest.h>

#include "hex.h"

namespace viaduct {
namespace {

TEST(FormatMessages, FollowsLibmnl) {
  const auto bytes = FromHex("15 00 00 00 10 00 05 00 07 00 00 00 00 00 00 00 72 72 00 00 41");
  EXPECT_EQ(FormatMessages(bytes),
            "----------------\n"
            "| 0000000021 | message length\n"
            "| 00016 | 0005 | type | flags\n"
            "| 0000000007 | sequence number\n"
            "| 0000000000 | port ID\n"
            "| 72 72 00 00 | rr  \n"
            "| 41          | A\n"
            "----------------\n");
}

TEST(FormatMessages, ReportsWhereItStoppedReading) {
  EXPECT_EQ(FormatMessages(FromHex("01 00")), "---------------- malformed\n");
}

}  // namespace
}  // namespace viaduct
