#include <gtest/gtest.h>

#include "core/attribute_reader.h"
#include "core/policy.h"
#include "hex.h"

namespace viaduct {
namespace {

constexpr AttributePolicy kInnerRows[] = {{1, "VALUE", AttributeKind::kU64}};
constexpr Policy kInner{"INNER", kInnerRows};
constexpr AttributePolicy kRows[] = {
    {1, "BYTE", AttributeKind::kU8},
    {2, "PORT", AttributeKind::kBe16},
    {3, "NAME", AttributeKind::kString, 1, 3},
    {5, "ADDRESS", AttributeKind::kBinary, 4, 16},
    {9, "NEST", AttributeKind::kNested, 0, 0, &kInner},
};
constexpr Policy kPolicy{"OUTER", kRows};

TEST(AttributeReader, MasksTheFlagsOfTheType) {
  const auto bytes = FromHex("05 00 07 c0 2a");  // NESTED and NET_BYTEORDER set, padding missing
  AttributeReader reader(bytes);
  const auto attribute = reader.Next();
  ASSERT_TRUE(attribute);
  EXPECT_EQ(attribute->type, 7);
  EXPECT_EQ(attribute->value.size(), 1U);
  EXPECT_FALSE(reader.Next());
  EXPECT_FALSE(reader.malformed());
}

class MalformedAttributes : public testing::TestWithParam<const char*> {};

TEST_P(MalformedAttributes, EndTheWalk) {
  const auto bytes = FromHex(GetParam());
  AttributeReader reader(bytes);
  while (reader.Next()) {
  }
  EXPECT_TRUE(reader.malformed());
}

INSTANTIATE_TEST_SUITE_P(All, MalformedAttributes,
                         testing::Values("04 00",                      // less than a header
                                         "03 00 01 00",                // length less than a header
                                         "00 00 01 00",                // length 0 would never end
                                         "09 00 01 00 00 00 00 00",    // length beyond the end
                                         "04 00 01 00 ff ff 01 00"));  // the second one too long

TEST(AttributeTable, ReadsByType) {
  const auto bytes = FromHex(R"(
    05 00 01 00 2a 00 00 00
    06 00 02 00 00 50 00 00    # 80 in network order
    06 00 03 00 72 72 00 00    # "rr" without NUL
    04 00 ff 3f                # unknown: skipped
    05 00 01 00 2b 00 00 00)");
  AttributeTable<5> table;
  ASSERT_TRUE(table.Parse(bytes, kPolicy));
  EXPECT_EQ(table.Number<uint8_t>(1), 0x2b) << "the last one wins";
  EXPECT_EQ(table.Port(2), 80);
  EXPECT_EQ(table.Text(3), "rr");
  EXPECT_FALSE(table.Has(5));
  EXPECT_TRUE(table.Bytes(5).empty());
  EXPECT_EQ(table.Number<uint32_t>(5, 7), 7U);
}

TEST(AttributeTable, TextEndsAtTheNul) {
  AttributeTable<5> table;
  const auto bytes = FromHex("08 00 03 00 72 00 78 00");
  ASSERT_TRUE(table.Parse(bytes, kPolicy));
  EXPECT_EQ(table.Text(3), "r");
}

struct SizeCase {
  const char* name;
  const char* bytes;
  bool conforms;
};

class PolicySize : public testing::TestWithParam<SizeCase> {};

TEST_P(PolicySize, IsChecked) {
  const auto bytes = FromHex(GetParam().bytes);
  EXPECT_EQ(Conforms(kPolicy, bytes), GetParam().conforms);
}

INSTANTIATE_TEST_SUITE_P(
    All, PolicySize,
    testing::Values(SizeCase{"Byte", "05 00 01 00 01 00 00 00", true},
                    SizeCase{"ByteMissing", "04 00 01 00", false},
                    SizeCase{"PortTooLong", "07 00 02 00 01 02 03 00", false},
                    SizeCase{"NameLongestWithNul", "08 00 03 00 61 62 63 00", true},
                    SizeCase{"NameTooLong", "09 00 03 00 61 62 63 64 00 00 00 00", false},
                    SizeCase{"NameEmpty", "04 00 03 00", false},
                    SizeCase{"AddressTooShort", "07 00 05 00 01 02 03 00", false},
                    SizeCase{"Unknown", "06 00 08 00 01 02 00 00", true},
                    SizeCase{"NestGood", "10 00 09 00 0c 00 01 00 01 02 03 04 05 06 07 08", true},
                    SizeCase{"NestShortValue", "0c 00 09 00 08 00 01 00 01 02 03 04", false},
                    SizeCase{"NestMalformed", "08 00 09 00 ff 00 01 00", false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ReadAs, CopiesUnalignedValues) {
  const auto bytes = FromHex("00 08 07 06 05 04 03 02 01");
  EXPECT_EQ(ReadAs<uint64_t>(std::span(bytes).subspan(1)), 0x0102030405060708U);
}

}  // namespace
}  // namespace viaduct
