#include "ipset/decode.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "hex.h"

namespace viaduct::ipset {
namespace {

constexpr const char* kHash = R"(
  02 00 00 00                                          # nfgenmsg
  05 00 01 00  07 00 00 00                             # PROTOCOL
  06 00 02 00  41 00 00 00                             # SETNAME "A"
  0c 00 03 00  68 61 73 68 3a 69 70 00                 # TYPENAME "hash:ip"
  05 00 05 00  0a 00 00 00                             # FAMILY
  05 00 04 00  04 00 00 00                             # REVISION
  3c 00 07 80                                          # DATA
  08 00 12 40  00 00 08 00                             #   HASHSIZE
  08 00 13 40  00 01 00 01                             #   MAXELEM
  08 00 08 40  00 00 00 48                             #   CADT_FLAGS WITH_COUNTERS | WITH_SKBINFO
  05 00 15 00  0c 00 00 00                             #   BUCKETSIZE, which we do not read
  08 00 19 40  00 00 00 02                             #   REFERENCES
  08 00 1a 40  00 00 01 98                             #   MEMSIZE
  08 00 18 40  00 00 00 03                             #   ELEMENTS
)";

TEST(DecodeSet, ReadsAHash) {
  const auto set = DecodeSet(FromHex(kHash));
  ASSERT_TRUE(set);
  EXPECT_STREQ(set->name, "A");
  EXPECT_STREQ(set->type, "hash:ip");
  EXPECT_EQ(set->family, AF_INET6);
  EXPECT_EQ(set->hash_size, 2048U);
  EXPECT_EQ(set->max_elements, 65537U);
  EXPECT_EQ(set->extensions, kMarks);
  EXPECT_EQ(set->references, 2U);
  EXPECT_EQ(set->element_count, 3U);
}

TEST(DecodeSet, ReadsABitmap) {
  const auto set = DecodeSet(FromHex(R"(
    02 00 00 00
    06 00 02 00  42 00 00 00
    10 00 03 00  62 69 74 6d  61 70 3a 70  6f 72 74 00
    05 00 05 00  00 00 00 00                             # FAMILY NFPROTO_UNSPEC
    1c 00 07 80
    06 00 04 40  00 00 00 00                             #   PORT
    06 00 05 40  ff ff 00 00                             #   PORT_TO
    08 00 08 40  00 00 00 10                             #   CADT_FLAGS WITH_COMMENT
  )"));
  ASSERT_TRUE(set);
  EXPECT_EQ(set->family, 0);
  EXPECT_EQ(set->max_elements, 65536U);
  EXPECT_EQ(set->hash_size, 0U);
  EXPECT_EQ(set->extensions, kComments);
}

TEST(DecodeSet, ReadsTheReplyToHeader) {
  const auto set = DecodeSet(FromHex(R"(
    02 00 00 00  06 00 02 00  41 00 00 00  06 00 03 00  54 00 00 00  05 00 05 00  02 00 00 00
  )"));
  ASSERT_TRUE(set);
  EXPECT_STREQ(set->type, "T");
  EXPECT_EQ(set->family, AF_INET);
}

TEST(DecodeSet, RefusesIncompleteMessages) {
  EXPECT_FALSE(DecodeSet(FromHex("02 00 00"))) << "short header";
  EXPECT_FALSE(DecodeSet(FromHex("02 00 00 00 06 00 02 00 41 00 00 00"))) << "no type";
  EXPECT_FALSE(DecodeSet(FromHex("02 00 00 00 06 00 03 00 54 00 00 00"))) << "no name";
  EXPECT_FALSE(DecodeSet(FromHex(R"(02 00 00 00 06 00 02 00 41 00 00 00 06 00 03 00 54 00 00 00
    0c 00 07 80 06 00 12 40 00 00 00 00)")))
      << "HASHSIZE of two bytes";
}

TEST(DecodeRanges, ReadsThem) {
  const auto protocol =
      DecodeProtocol(FromHex("02 00 00 00 05 00 01 00 07 00 00 00 05 00 0a 00 06 00 00 00"));
  ASSERT_TRUE(protocol);
  EXPECT_EQ(protocol->lowest, 6);
  EXPECT_EQ(protocol->highest, 7);
  const auto revisions = DecodeRevisions(
      FromHex("02 00 00 00 05 00 01 00 07 00 00 00 05 00 04 00 05 00 00 00 05 00 0a 00 00 00 00 00"));
  ASSERT_TRUE(revisions);
  EXPECT_EQ(revisions->lowest, 0);
  EXPECT_EQ(revisions->highest, 5);
}

TEST(DecodeRanges, AnOldKernelSendsNoLowestVersion) {
  const auto protocol = DecodeProtocol(FromHex("02 00 00 00 05 00 01 00 06 00 00 00"));
  ASSERT_TRUE(protocol);
  EXPECT_EQ(protocol->lowest, 6);
  EXPECT_EQ(protocol->highest, 6);
}

TEST(DecodeRanges, RefusesInvalidRanges) {
  EXPECT_FALSE(DecodeProtocol(FromHex("02 00 00 00")));
  EXPECT_FALSE(DecodeRevisions(FromHex("02 00 00 00 05 00 01 00 07 00 00 00")));
  EXPECT_FALSE(DecodeProtocol(FromHex("02 00 00 00 05 00 01 00 06 00 00 00 05 00 0a 00 07 00 00 00")));
}

std::vector<EntryRecord> Entries(const char* hex) {
  std::vector<EntryRecord> entries;
  EXPECT_TRUE(DecodeEntries(FromHex(hex), entries)) << hex;
  return entries;
}

TEST(DecodeEntries, ReadsAllParts) {
  const auto entries = Entries(R"(
    02 00 00 00
    06 00 02 00  41 00 00 00
    84 00 08 80                                          # ADT
    50 00 07 80                                          #   DATA
    0c 00 01 80  08 00 01 40  0a 60 00 05                #     IP
    0c 00 14 80  08 00 01 40  0a 60 01 00                #     IP2
    06 00 04 40  00 50 00 00                             #     PORT
    05 00 15 00  18 00 00 00                             #     CIDR2
    05 00 07 00  84 00 00 00                             #     PROTO
    08 00 08 40  00 00 00 04                             #     CADT_FLAGS NOMATCH
    0c 00 1b 40  12 34 56 78  00 00 00 ff                #     SKBMARK
    08 00 1a 00  77 65 62 00                             #     COMMENT
    30 00 07 80
    18 00 01 80
    14 00 02 40  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 0a
    05 00 03 00  40 00 00 00                             #     CIDR
    0c 00 19 40  00 00 00 00  00 00 00 01                #     PACKETS, which we do not read
  )");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_TRUE(HasBytes(entries[0].address, "0a 60 00 05 00 00 00 00 00 00 00 00 00 00 00 00"));
  EXPECT_TRUE(HasBytes(entries[0].second_address, "0a 60 01 00 00 00 00 00 00 00 00 00 00 00 00 00"));
  EXPECT_EQ(entries[0].family, AF_INET);
  EXPECT_EQ(entries[0].port, 80);
  EXPECT_EQ(entries[0].protocol, IPPROTO_SCTP);
  EXPECT_EQ(entries[0].prefix_length, 24);
  EXPECT_EQ(entries[0].mark, 0x12345678U);
  EXPECT_EQ(entries[0].mark_mask, 0xffU);
  EXPECT_EQ(entries[0].is_exception, 1);
  EXPECT_EQ(entries[0].comment_length, 0) << "comments are not kept";
  EXPECT_EQ(entries[1].family, AF_INET6);
  EXPECT_EQ(entries[1].address[15], 10);
  EXPECT_EQ(entries[1].prefix_length, 64);
  EXPECT_EQ(entries[1].is_exception, 0);
}

TEST(DecodeEntries, AMessageWithoutEntries) {
  EXPECT_TRUE(Entries("02 00 00 00 06 00 02 00 41 00 00 00").empty());
  EXPECT_TRUE(Entries("02 00 00 00 06 00 02 00 41 00 00 00 04 00 08 80").empty());
}

TEST(DecodeEntries, RefusesMalformedEntries) {
  std::vector<EntryRecord> entries;
  EXPECT_FALSE(DecodeEntries(FromHex("02 00 00"), entries)) << "short header";
  EXPECT_FALSE(DecodeEntries(FromHex("02 00 00 00 10 00 08 80 0c 00 07 80 05 00 04 00 50 00 00 00"), entries))
      << "PORT of one byte";
  EXPECT_FALSE(DecodeEntries(FromHex(R"(02 00 00 00 24 00 08 80 20 00 07 80
    1c 00 01 80 08 00 01 40 0a 00 00 01 14 00 02 40)"),
                             entries))
      << "an address beyond its nest";
  EXPECT_FALSE(DecodeEntries(FromHex("02 00 00 00 0c 00 08 80 08 00 07 80 04 00 01 80"), entries))
      << "an address of no family";
  EXPECT_TRUE(entries.empty());
}

TEST(DecodeLine, ReadsTheLineOfTheRequest) {
  EXPECT_EQ(DecodeLine(FromHex("02 00 00 00 05 00 01 00 07 00 00 00 08 00 09 40 00 01 00 02")), 65538U);
  EXPECT_EQ(DecodeLine(FromHex("02 00 00 00 05 00 01 00 07 00 00 00")), 0U) << "none";
  EXPECT_EQ(DecodeLine(FromHex("02 00 00 00 08 00 09 40 00 01")), 0U) << "broken";
  EXPECT_EQ(DecodeLine({}), 0U) << "no request returned";
}

}  // namespace
}  // namespace viaduct::ipset
