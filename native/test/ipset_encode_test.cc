#include "ipset/encode.h"

#include <gtest/gtest.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>

#include "core/attribute_reader.h"
#include "hex.h"
#include "ipset/policy.h"
#include "ipset_records.h"

namespace viaduct::ipset {
namespace {

class IpsetEncode : public testing::Test {
 protected:
  bool Encode(const Records& records) {
    return EncodeOperation(builder, {7, 9}, records.batch(), records.ops[0]);
  }

  std::vector<uint8_t> buffer = std::vector<uint8_t>(256 << 10);
  MessageBuilder builder{buffer};
};

TEST_F(IpsetEncode, Protocol) {
  ASSERT_TRUE(EncodeProtocol(builder));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    1c 00 00 00  01 06  01 00  00 00 00 00  00 00 00 00   # IPSET_CMD_PROTOCOL, NLM_F_REQUEST
    02 00 00 00                                           # nfgenmsg AF_INET
    05 00 01 00  07 00 00 00                              # PROTOCOL 7
  )"));
}

TEST_F(IpsetEncode, FindTypeOfBothFamilies) {
  ASSERT_TRUE(EncodeFindType(builder, 6, MakeSet("A", "hash:ip", AF_INET6)));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    30 00 00 00  0d 06  01 00  00 00 00 00  00 00 00 00   # IPSET_CMD_TYPE
    02 00 00 00
    05 00 01 00  06 00 00 00                              # PROTOCOL 6
    0c 00 03 00  68 61 73 68 3a 69 70 00                  # TYPENAME "hash:ip"
    05 00 05 00  0a 00 00 00                              # FAMILY AF_INET6
  )"));
}

TEST_F(IpsetEncode, CreateOfAHash) {
  SetRecord set = MakeSet("A", "hash:ip", AF_INET6);
  set.extensions = kMarks | kComments;
  ASSERT_TRUE(EncodeCreate(builder, 7, set, 4));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    5c 00 00 00  02 06  01 00  00 00 00 00  00 00 00 00   # IPSET_CMD_CREATE, without NLM_F_EXCL
    02 00 00 00
    05 00 01 00  07 00 00 00
    06 00 02 00  41 00 00 00                              # SETNAME "A"
    0c 00 03 00  68 61 73 68 3a 69 70 00                  # TYPENAME
    05 00 04 00  04 00 00 00                              # REVISION
    05 00 05 00  0a 00 00 00                              # FAMILY
    1c 00 07 80                                           # DATA, NLA_F_NESTED
    08 00 12 40  00 00 04 00                              #   HASHSIZE, NLA_F_NET_BYTEORDER
    08 00 13 40  00 01 00 00                              #   MAXELEM
    08 00 08 40  00 00 00 50                              #   CADT_FLAGS WITH_COMMENT | WITH_SKBINFO
  )"));
}

TEST_F(IpsetEncode, CreateOfABitmapOfAllPorts) {
  ASSERT_TRUE(EncodeCreate(builder, 7, MakeSet("B", "bitmap:port"), 3));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    58 00 00 00  02 06  01 00  00 00 00 00  00 00 00 00
    02 00 00 00
    05 00 01 00  07 00 00 00
    06 00 02 00  42 00 00 00
    10 00 03 00  62 69 74 6d  61 70 3a 70  6f 72 74 00    # TYPENAME "bitmap:port"
    05 00 04 00  03 00 00 00
    05 00 05 00  02 00 00 00
    14 00 07 80
    06 00 04 40  00 00 00 00                              #   PORT 0
    06 00 05 40  ff ff 00 00                              #   PORT_TO 65535
  )"));
}

TEST_F(IpsetEncode, RequestsForSets) {
  ASSERT_TRUE(EncodeHeader(builder, 7, "A"));
  ASSERT_TRUE(EncodeListSets(builder, 7));
  ASSERT_TRUE(EncodeListEntries(builder, 7, "A"));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    24 00 00 00  0c 06  01 00  00 00 00 00  00 00 00 00   # IPSET_CMD_HEADER
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    24 00 00 00  07 06  01 00  00 00 00 00  00 00 00 00   # IPSET_CMD_LIST
    02 00 00 00  05 00 01 00  07 00 00 00
    08 00 06 40  00 00 00 04                              # FLAGS LIST_HEADER
    24 00 00 00  07 06  01 00  00 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
  )"));
}

TEST_F(IpsetEncode, OperationsOnSets) {
  Records records{{}, {MakeSet("A", ""), MakeSet("B", "")}};
  for (const Op op : {Op::kDestroySet, Op::kFlushSet, Op::kSwapSets, Op::kRenameSet}) {
    records.ops = {{0, 1, op, {}}};
    ASSERT_TRUE(Encode(records));
  }
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    24 00 00 00  03 06  01 02  09 00 00 00  00 00 00 00   # IPSET_CMD_DESTROY, NLM_F_EXCL
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    24 00 00 00  04 06  01 00  09 00 00 00  00 00 00 00   # IPSET_CMD_FLUSH
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    2c 00 00 00  06 06  01 00  09 00 00 00  00 00 00 00   # IPSET_CMD_SWAP
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    06 00 03 00  42 00 00 00                              # SETNAME2
    2c 00 00 00  05 06  01 00  09 00 00 00  00 00 00 00   # IPSET_CMD_RENAME
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    06 00 03 00  42 00 00 00
  )"));
}

TEST_F(IpsetEncode, EntryOfEachType) {
  struct Case {
    const char* type;
    uint8_t family;
    const char* golden;
  };
  for (const auto& [type, family, golden] : {Case{"hash:ip", AF_INET, R"(
    34 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00   # IPSET_CMD_ADD
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    10 00 07 80                                           # DATA
    0c 00 01 80  08 00 01 40  0a 60 00 05                 #   IP { IPADDR_IPV4 }
  )"},
                                             Case{"hash:net", AF_INET6, R"(
    48 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    24 00 07 80
    18 00 01 80                                           #   IP { IPADDR_IPV6 }
    14 00 02 40  fd 00 00 00  00 00 00 00  00 00 00 00  00 00 00 05
    05 00 03 00  10 00 00 00                              #   CIDR
  )"},
                                             Case{"hash:ip,port", AF_INET, R"(
    44 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    20 00 07 80
    0c 00 01 80  08 00 01 40  0a 60 00 05
    06 00 04 40  00 50 00 00                              #   PORT
    05 00 07 00  06 00 00 00                              #   PROTO
  )"},
                                             Case{"hash:ip,port,ip", AF_INET, R"(
    50 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    2c 00 07 80
    0c 00 01 80  08 00 01 40  0a 60 00 05
    06 00 04 40  00 50 00 00
    05 00 07 00  06 00 00 00
    0c 00 14 80  08 00 01 40  0a 60 01 00                 #   IP2
  )"},
                                             Case{"hash:ip,port,net", AF_INET, R"(
    58 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    34 00 07 80
    0c 00 01 80  08 00 01 40  0a 60 00 05
    06 00 04 40  00 50 00 00
    05 00 07 00  06 00 00 00
    0c 00 14 80  08 00 01 40  0a 60 01 00
    05 00 15 00  18 00 00 00                              #   CIDR2
  )"},
                                             Case{"bitmap:port", AF_INET, R"(
    30 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    0c 00 07 80
    06 00 04 40  00 50 00 00
  )"}}) {
    Records records{{}, {MakeSet("A", type, family)}};
    records.AddEntry(Op::kAddEntry, 0, MakeEntry(5, 80, family));
    builder.Clear();
    ASSERT_TRUE(Encode(records));
    EXPECT_TRUE(HasBytes(builder.sealed(), golden)) << type;
  }
}

TEST_F(IpsetEncode, EntryWithAMarkAndAComment) {
  Records records{{}, {MakeSet("A", "bitmap:port")}, {}, {'-', 'w', 'e', 'b', '-'}};
  EntryRecord entry = MakeEntry(0, 80);
  entry.mark = 0x12345678;
  entry.mark_mask = 0xff;
  entry.comment_offset = 1;
  entry.comment_length = 3;
  records.AddEntry(Op::kDeleteEntry, 0, entry);
  ASSERT_TRUE(Encode(records));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    44 00 00 00  0a 06  01 00  09 00 00 00  00 00 00 00   # IPSET_CMD_DEL
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    20 00 07 80
    06 00 04 40  00 50 00 00
    0c 00 1b 40  12 34 56 78  00 00 00 ff                 #   SKBMARK mark, mask
    08 00 1a 00  77 65 62 00                              #   COMMENT
  )"));
}

TEST_F(IpsetEncode, PackedEntries) {
  Records records{{}, {MakeSet("A", "bitmap:port"), MakeSet("B", "bitmap:port")}};
  records.Add(Op::kFlushSet, 0);
  records.AddEntry(Op::kAddEntry, 0, MakeEntry(0, 80));
  records.AddEntry(Op::kAddEntry, 0, MakeEntry(0, 81));
  records.AddEntry(Op::kAddEntry, 1, MakeEntry(0, 82));
  records.AddEntry(Op::kDeleteEntry, 1, MakeEntry(0, 83));
  EXPECT_EQ(EncodeEntries(builder, {7, 9}, records.batch(), 1), 2U);
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    58 00 00 00  09 06  01 00  09 00 00 00  00 00 00 00
    02 00 00 00  05 00 01 00  07 00 00 00  06 00 02 00  41 00 00 00
    08 00 09 40  00 00 00 00                              # LINENO, for the kernel's answer
    2c 00 08 80                                           # ADT
    14 00 07 80                                           #   DATA
    08 00 09 40  00 00 00 02                              #     LINENO: the second operation
    06 00 04 40  00 50 00 00                              #     PORT
    14 00 07 80
    08 00 09 40  00 00 00 03
    06 00 04 40  00 51 00 00
  )"));
  EXPECT_EQ(EncodeEntries(builder, {7, 10}, records.batch(), 3), 1U) << "the next is a deletion";
  EXPECT_EQ(EncodeEntries(builder, {7, 11}, records.batch(), 4), 1U);
}

TEST_F(IpsetEncode, EntriesEndBeforeAMessageIsFull) {
  Records records{{}, {MakeSet("A", "hash:ip,port,net", AF_INET6)}, {}, std::vector<uint8_t>(255, 'x')};
  for (int i = 0; i < 1000; ++i) {
    EntryRecord entry = MakeEntry(5, 80, AF_INET6);
    entry.mark = 1;
    entry.comment_length = 255;
    records.AddEntry(Op::kAddEntry, 0, entry);
  }
  const uint32_t count = EncodeEntries(builder, {7, 9}, records.batch(), 0);
  EXPECT_GT(count, 150U);
  EXPECT_LE(builder.size(), kMaxPackedBytes);
  const size_t largest = builder.size() / count;
  EXPECT_LE(largest, kMaxEntryBytes);

  MessageBuilder small(std::span<uint8_t>(buffer.data(), 1000));
  EXPECT_EQ(EncodeEntries(small, {7, 9}, records.batch(), 0), 2U);
  EXPECT_EQ(EncodeEntries(small, {7, 9}, records.batch(), 2), 0U) << "no room for another";
  EXPECT_EQ(EncodeOperation(small, {7, 9}, records.batch(), records.ops[2]), false);
  EXPECT_GT(small.size(), 2 * 300U) << "sealed messages stay";
}

}  // namespace
}  // namespace viaduct::ipset
