#include "core/message_builder.h"

#include <gtest/gtest.h>

#include "hex.h"

namespace viaduct {
namespace {

struct FamilyHeader {
  uint32_t value;
};

TEST(MessageBuilder, WritesAttributesWithZeroPadding) {
  std::vector<uint8_t> buffer(128, 0xaa);
  MessageBuilder builder(buffer);
  builder.BeginMessage<FamilyHeader>(0x1234, 0x0005, 0x01020304)->value = 9;
  builder.U8(1, 0x11);
  builder.U16(2, 0x2222);
  builder.U32(3, 0x33333333);
  builder.String(4, "rr");
  builder.Nest(5 | NLA_F_NESTED, [&] { builder.Bytes(6, {}); });
  ASSERT_TRUE(builder.FinishMessage());
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    3c 00 00 00  34 12  05 00   # nlmsg_len 60, type, flags
    04 03 02 01  00 00 00 00    # sequence, port
    09 00 00 00                 # family header
    05 00 01 00  11 00 00 00    # u8
    06 00 02 00  22 22 00 00    # u16
    08 00 03 00  33 33 33 33    # u32
    07 00 04 00  72 72 00 00    # string with NUL
    08 00 05 80                 # nest
    04 00 06 00                 #   empty
  )"));
}

TEST(MessageBuilder, OverflowRollsBackOnlyTheOpenMessage) {
  std::vector<uint8_t> buffer(64);
  MessageBuilder builder(buffer);
  builder.BeginMessage<FamilyHeader>(0x20, 0, 1);
  ASSERT_TRUE(builder.FinishMessage());
  const std::vector<uint8_t> before(builder.sealed().begin(), builder.sealed().end());

  builder.BeginMessage<FamilyHeader>(0x20, 0, 2);
  builder.Bytes(1, std::vector<uint8_t>(100));
  builder.U8(2, 1);  // it would fit, but the first overflow has won
  EXPECT_FALSE(builder.FinishMessage());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), builder.sealed().begin(), builder.sealed().end()));

  builder.BeginMessage<FamilyHeader>(0x20, 0, 3);
  EXPECT_TRUE(builder.FinishMessage());
  EXPECT_EQ(builder.size(), 40U);
}

TEST(MessageBuilder, AHeaderThatDoesNotFitIsDiscarded) {
  std::vector<uint8_t> buffer(16);
  MessageBuilder builder(buffer);
  builder.BeginMessage<FamilyHeader>(0x20, 0, 1)->value = 0xffffffff;
  EXPECT_FALSE(builder.FinishMessage());
  EXPECT_EQ(builder.size(), 0U);
}

TEST(MessageBuilder, AttributeLongerThanItsLengthFieldOverflows) {
  std::vector<uint8_t> buffer(200000);
  MessageBuilder builder(buffer);
  builder.BeginMessage<FamilyHeader>(0x20, 0, 1);
  builder.Bytes(1, std::vector<uint8_t>(65531));
  EXPECT_TRUE(builder.FinishMessage());
  builder.BeginMessage<FamilyHeader>(0x20, 0, 1);
  builder.Bytes(1, std::vector<uint8_t>(65532));
  EXPECT_FALSE(builder.FinishMessage());
  builder.BeginMessage<FamilyHeader>(0x20, 0, 1);
  builder.Nest(1, [&] {
    builder.Bytes(2, std::vector<uint8_t>(40000));
    builder.Bytes(3, std::vector<uint8_t>(40000));
  });
  EXPECT_FALSE(builder.FinishMessage());
}

TEST(MessageBuilder, ClearStartsOver) {
  std::vector<uint8_t> buffer(64);
  MessageBuilder builder(buffer);
  builder.BeginMessage<FamilyHeader>(0x20, 0, 1);
  ASSERT_TRUE(builder.FinishMessage());
  builder.Clear();
  EXPECT_TRUE(builder.sealed().empty());
}

}  // namespace
}  // namespace viaduct
