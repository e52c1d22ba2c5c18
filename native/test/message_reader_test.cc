#include "core/message_reader.h"

#include <gtest/gtest.h>

#include "hex.h"

namespace viaduct {
namespace {

std::optional<ErrorReport> Decode(std::string_view hex) {
  const auto bytes = FromHex(hex);
  MessageReader reader(bytes);
  const auto message = reader.Next();
  return message ? DecodeError(*message) : std::nullopt;
}

TEST(DecodeError, ReadsErrnoAndText) {
  const auto report = Decode(R"(
    34 00 00 00  02 00  00 03    # NLMSG_ERROR, CAPPED | ACK_TLVS
    01 00 00 00  00 00 00 00
    ea ff ff ff                  # -22
    24 00 00 00 18 00 05 00 01 00 00 00 00 00 00 00   # request header
    08 00 02 00 14 00 00 00      # OFFS
    08 00 01 00 62 61 64 00      # MSG "bad"
  )");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->code, EINVAL);
  EXPECT_EQ(report->text, "bad");
  EXPECT_TRUE(report->request.empty()) << "capped";
}

TEST(DecodeError, SkipsTheEchoedPayload) {
  const auto bytes = FromHex(R"(
    30 00 00 00  02 00  00 02    # NLMSG_ERROR, ACK_TLVS, not CAPPED
    01 00 00 00  00 00 00 00
    ea ff ff ff
    14 00 00 00 18 00 05 00 01 00 00 00 00 00 00 00   # request header: 20 bytes in all
    08 00 01 00                  # echoed payload, looks like an attribute
    08 00 01 00 79 65 73 00      # MSG "yes"
  )");
  const auto message = MessageReader(bytes).Next();
  ASSERT_TRUE(message);
  const auto report = DecodeError(*message);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->text, "yes");
  EXPECT_TRUE(HasBytes(report->request, "08 00 01 00")) << "behind its header";
}

TEST(DecodeError, MalformedAttributesLoseOnlyTheText) {
  const auto report = Decode(R"(
    28 00 00 00  02 00  00 03
    01 00 00 00  00 00 00 00
    ff ff ff ff
    14 00 00 00 18 00 05 00 01 00 00 00 00 00 00 00
    ff 00 01 00                  # MSG beyond the end
  )");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->code, EPERM);
  EXPECT_EQ(report->text, "");
}

TEST(DecodeError, AnEchoedLengthBeyondTheMessageLosesOnlyTheText) {
  const auto report = Decode(R"(
    24 00 00 00  02 00  00 02
    01 00 00 00  00 00 00 00
    ff ff ff ff
    ff ff ff 7f 18 00 05 00 01 00 00 00 00 00 00 00
  )");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->text, "");
  EXPECT_TRUE(report->request.empty());
}

TEST(DecodeError, NeedsTheFixedPart) {
  EXPECT_FALSE(Decode("14 00 00 00 02 00 00 00 01 00 00 00 00 00 00 00 ff ff ff ff"));
}

TEST(DecodeError, AnInvalidErrnoIsAProtocolError) {
  const auto positive = Decode(R"(24 00 00 00 02 00 00 01 01 00 00 00 00 00 00 00
    05 00 00 00  14 00 00 00 18 00 05 00 01 00 00 00 00 00 00 00)");
  ASSERT_TRUE(positive);
  EXPECT_EQ(positive->code, EPROTO);
  const auto least = Decode(R"(24 00 00 00 02 00 00 01 01 00 00 00 00 00 00 00
    00 00 00 80  14 00 00 00 18 00 05 00 01 00 00 00 00 00 00 00)");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->code, EPROTO);
}

TEST(MessageReader, StepsOverPadding) {
  const auto bytes = FromHex(R"(
    11 00 00 00 20 00 00 00 01 00 00 00 00 00 00 00 aa 00 00 00
    10 00 00 00 21 00 00 00 02 00 00 00 00 00 00 00)");
  MessageReader reader(bytes);
  EXPECT_EQ(reader.Next()->payload.size(), 1U);
  EXPECT_EQ(reader.Next()->header.nlmsg_seq, 2U);
  EXPECT_FALSE(reader.Next());
  EXPECT_FALSE(reader.malformed());
}

TEST(MessageReader, LengthBelowAHeaderIsMalformed) {
  const auto bytes = FromHex("0f 00 00 00 20 00 00 00 01 00 00 00 00 00 00 00");
  MessageReader reader(bytes);
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.malformed());
}

}  // namespace
}  // namespace viaduct
