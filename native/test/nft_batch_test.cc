#include "nftables/batch.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <string>

#include "core/attribute_reader.h"
#include "hex.h"
#include "nft_streams.h"

namespace viaduct::nftables {
namespace {

/// Message `index` of a batch.
std::span<const uint8_t> MessageOf(const Batch& batch, size_t index) {
  const auto bytes = std::span(batch.bytes).subspan(batch.messages[index].offset);
  return bytes.first(ReadAs<nlmsghdr>(bytes).nlmsg_len);
}

Batch Build(Operations& operations, const BatchOptions& options = {}) {
  auto batch = BuildBatch(operations.Finish(), options);
  EXPECT_TRUE(batch.ok()) << batch.error().text;
  batch.value().SetSequences(7);
  return std::move(batch.value());
}

TEST(NftBatch, BeginsAndEndsATransaction) {
  Operations operations;
  const Batch batch = Build(operations.Table(Verb::kAdd, "kube-proxy"), {.generation = 5});
  EXPECT_TRUE(HasBytes(batch.bytes, R"(
    1c 00 00 00  10 00 01 00  07 00 00 00  00 00 00 00   # NFNL_MSG_BATCH_BEGIN, REQUEST
    00 00 00 0a                                          # nfgenmsg: of nf_tables
    08 00 01 00  00 00 00 05                             # GENID 5
    24 00 00 00  00 0a 09 04  08 00 00 00  00 00 00 00   # NFT_MSG_NEWTABLE, REQUEST, ECHO, CREATE
    02 00 00 00                                          # nfgenmsg: AF_INET
    0f 00 01 00  6b 75 62 65  2d 70 72 6f  78 79 00 00   # NAME "kube-proxy"
    14 00 00 00  11 00 01 00  09 00 00 00  00 00 00 00   # NFNL_MSG_BATCH_END, REQUEST
    00 00 00 0a
  )"));
}

TEST(NftBatch, ADryRunHasNoEnd) {
  Operations operations;
  const Batch batch = Build(operations.Table(Verb::kCreate, "t"), {.is_dry_run = true});
  ASSERT_EQ(batch.messages.size(), 2U);
  EXPECT_EQ(ReadAs<nlmsghdr>(MessageOf(batch, 1)).nlmsg_type, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE);
}

TEST(NftBatch, VerbsAreFlags) {
  struct Case {
    Verb verb;
    bool wants_handle;
    uint16_t message;
    uint16_t flags;
  };
  constexpr Case kCases[] = {
      {Verb::kAdd, false, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND},
      {Verb::kAdd, true, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ECHO},
      {Verb::kInsert, false, NFT_MSG_NEWRULE, NLM_F_CREATE},
      {Verb::kReplace, false, NFT_MSG_NEWRULE, NLM_F_REPLACE},
      {Verb::kDelete, false, NFT_MSG_DELRULE, 0},
  };
  Operations operations;
  operations.Table(Verb::kDelete, "t");
  for (const Case& given : kCases) operations.AcceptRule(given.verb, given.wants_handle);
  const Batch batch = Build(operations);
  EXPECT_EQ(ReadAs<nlmsghdr>(MessageOf(batch, 1)).nlmsg_flags, NLM_F_REQUEST) << "no echo of a deletion";
  for (size_t i = 0; i < std::size(kCases); ++i) {
    const auto header = ReadAs<nlmsghdr>(MessageOf(batch, i + 2));
    EXPECT_EQ(header.nlmsg_type, NFNL_SUBSYS_NFTABLES << 8 | kCases[i].message);
    EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST | kCases[i].flags);
    EXPECT_EQ(batch.messages[i + 2].operation, i + 1);
    EXPECT_EQ(batch.messages[i + 2].wants_handle, kCases[i].wants_handle);
  }
}

TEST(NftBatch, WritesARule) {
  Operations operations;
  operations.Table(Verb::kAdd, "t").AcceptRule(Verb::kAdd, false);
  EXPECT_TRUE(HasBytes(MessageOf(Build(operations), 2), R"(
    58 00 00 00  06 0a 01 0c  09 00 00 00  00 00 00 00  02 00 00 00   # NFT_MSG_NEWRULE, CREATE, APPEND
    06 00 01 00  74 00 00 00                                          # TABLE "t"
    06 00 02 00  63 00 00 00                                          # CHAIN "c"
    34 00 04 80                                                       # EXPRESSIONS
      30 00 01 80                                                     # ELEM
        0e 00 01 00  69 6d 6d 65  64 69 61 74  65 00 00 00            # NAME "immediate"
        1c 00 02 80                                                   # DATA
          08 00 01 00  00 00 00 00                                    # DREG verdict
          10 00 02 80  0c 00 02 80                                    # DATA, VERDICT
            08 00 01 00  00 00 00 01                                  # CODE accept
  )"));
}

TEST(NftBatch, AnAnonymousSetIsPartOfItsRule) {
  Operations operations;
  auto& stream = operations.stream();
  operations.Begin(Verb::kAdd, Object::kSet, kIsPartOfNext);
  stream.U32(1 | 2 | 4 | 256);  // table, name, flags, id
  stream.Text("t");
  stream.Text("__map%d");
  stream.U32(NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | NFT_SET_MAP);
  stream.U32(1);
  operations.Begin(Verb::kAdd, Object::kElements, kIsPartOfNext);
  stream.Text("t");
  stream.Text("__map%d");
  stream.U32(1);
  operations.Layout({4, 0, 0, ElementData::kNone});
  stream.U32(0);
  stream.Bytes(FromHex("00 00 00 00  01 00 00 00"));
  operations.AcceptRule(Verb::kAdd, true).AcceptRule(Verb::kAdd, false);
  const Batch batch = Build(operations);
  ASSERT_EQ(batch.messages.size(), 6U);
  const uint32_t indexes[] = {0, 0, 0, 1};
  for (size_t i = 0; i < std::size(indexes); ++i) EXPECT_EQ(batch.messages[i + 1].operation, indexes[i]);
  EXPECT_TRUE((ReadAs<nlmsghdr>(MessageOf(batch, 1)).nlmsg_flags & NLM_F_ECHO) != 0) << "for the generation";
  EXPECT_TRUE(HasBytes(MessageOf(batch, 2).subspan(NLMSG_HDRLEN), R"(
    02 00 00 00
    06 00 01 00  74 00 00 00                           # TABLE "t"
    0c 00 02 00  5f 5f 6d 61  70 25 64 00              # SET "__map%d"
    08 00 04 00  00 00 00 01                           # SET_ID
    24 00 03 80                                        # ELEMENTS
      10 00 01 80  0c 00 01 80  08 00 01 00  00 00 00 00
      10 00 01 80  0c 00 01 80  08 00 01 00  01 00 00 00
  )"));
}

TEST(NftBatch, WritesElements) {
  Operations operations;
  operations.Begin(Verb::kAdd, Object::kElements);
  auto& stream = operations.stream();
  stream.Text("t");
  stream.Text("m");
  stream.U32(0);
  operations.Layout({4, 2, kKeyEndPart | kFlagsPart | kTimeoutPart | kExpirationPart, ElementData::kValue});
  stream.U32(0);
  stream.Bytes(FromHex(R"(
    0a 00 00 01  0a 00 00 02  1f 90  00 00 00 00  10 27 00 00 00 00 00 00  00 00 00 00 00 00 00 00
    0a 00 00 03  0a 00 00 03  00 50  00 00 00 00  00 00 00 00 00 00 00 00  e8 03 00 00 00 00 00 00
    00 00 00 00  00 00 00 00  00 35  02 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
  )"));
  const Batch batch = Build(operations);
  ASSERT_EQ(batch.messages.size(), 4U) << "the first element is in a message of its own";
  EXPECT_EQ(ReadAs<nlmsghdr>(MessageOf(batch, 1)).nlmsg_flags, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ECHO);
  EXPECT_TRUE(HasBytes(MessageOf(batch, 1).subspan(NLMSG_HDRLEN), R"(
    02 00 00 00                                        # nfgenmsg: AF_INET
    06 00 01 00  74 00 00 00                           # TABLE "t"
    06 00 02 00  6d 00 00 00                           # SET "m"
    38 00 03 80  34 00 01 80                           # ELEMENTS, ELEM
      0c 00 01 80  08 00 01 00  0a 00 00 01            # KEY
      0c 00 0a 80  08 00 01 00  0a 00 00 02            # KEY_END
      0c 00 02 80  06 00 01 00  1f 90 00 00            # DATA
      0c 00 04 00  00 00 00 00  00 00 27 10            # TIMEOUT 10 s
  )"));
  EXPECT_TRUE(HasBytes(MessageOf(batch, 2).subspan(NLMSG_HDRLEN), R"(
    02 00 00 00
    06 00 01 00  74 00 00 00
    06 00 02 00  6d 00 00 00
    50 00 03 80  34 00 01 80
      0c 00 01 80  08 00 01 00  0a 00 00 03
      0c 00 0a 80  08 00 01 00  0a 00 00 03
      0c 00 02 80  06 00 01 00  00 50 00 00
      0c 00 05 00  00 00 00 00  00 00 03 e8            # EXPIRATION 1 s
    18 00 01 80                                        # ELEM, without a key
      0c 00 02 80  06 00 01 00  00 35 00 00
      08 00 03 00  00 00 00 02                         # FLAGS CATCHALL
  )"));
}

TEST(NftBatch, TheEndOfAnIntervalHasOnlyAKeyAndFlags) {
  const std::string end = R"(
    02 00 00 00                                        # nfgenmsg: AF_INET
    06 00 01 00  74 00 00 00                           # TABLE "t"
    06 00 02 00  6d 00 00 00                           # SET "m"
    1c 00 03 80  18 00 01 80                           # ELEMENTS, ELEM
      0c 00 01 80  08 00 01 00  0a 00 00 01            # KEY
      08 00 03 00  00 00 00 01                         # FLAGS INTERVAL_END
  )";
  for (const auto data :
       {ElementData::kNone, ElementData::kValue, ElementData::kVerdict, ElementData::kObject}) {
    const bool has_data = data != ElementData::kNone;
    Operations operations;
    operations.Begin(Verb::kAdd, Object::kElements);
    auto& stream = operations.stream();
    stream.Text("t");
    stream.Text("m");
    stream.U32(0);
    operations.Layout({4, has_data ? 4U : 0U, kFlagsPart | kTimeoutPart | kExpirationPart, data});
    stream.U32(0);  // no labels
    Bytes element = FromHex("0a 00 00 01");
    if (has_data) element.insert(element.end(), {0, 0, 0, 0});
    const Bytes rest = FromHex("01 00 00 00  10 27 00 00 00 00 00 00  e8 03 00 00 00 00 00 00");
    element.insert(element.end(), rest.begin(), rest.end());
    stream.Bytes(element);
    EXPECT_TRUE(HasBytes(MessageOf(Build(operations), 1).subspan(NLMSG_HDRLEN), end))
        << "data " << static_cast<int>(data);
  }
}

TEST(NftBatch, SplitsElementsBeforeANestIsFull) {
  Operations operations;
  constexpr uint32_t kCount = 10'000;
  operations.Table(Verb::kAdd, "t").Elements(Verb::kAdd, kCount);
  const Batch batch = Build(operations);
  uint32_t expected_first = 0;
  for (size_t i = 2; i + 1 < batch.messages.size(); ++i) {
    EXPECT_EQ(batch.messages[i].first_element, expected_first);
    const auto message = MessageOf(batch, i);
    EXPECT_LT(message.size(), 65'536U);
    // Each element has 16 bytes: headers of ELEM, KEY and VALUE, and the value. The rest of the message
    // has 40.
    expected_first += static_cast<uint32_t>((message.size() - 40) / 16);
  }
  EXPECT_EQ(expected_first, kCount);
  EXPECT_EQ(batch.messages.size(), 6U);
}

TEST(NftBatch, WithoutElementsTheMessageNamesOnlyTheSet) {
  Operations operations;
  operations.Elements(Verb::kDelete, 0);
  const Batch batch = Build(operations);
  ASSERT_EQ(batch.messages.size(), 3U);
  EXPECT_TRUE(HasBytes(MessageOf(batch, 1), R"(
    24 00 00 00  0e 0a 01 00  08 00 00 00  00 00 00 00   # NFT_MSG_DELSETELEM
    02 00 00 00
    06 00 01 00  74 00 00 00
    06 00 02 00  73 00 00 00
  )"));
}

TEST(NftBatch, RefusesAMalformedStream) {
  struct Case {
    const char* what;
    Bytes stream;
  };
  const auto table = [](uint32_t verb, uint32_t object, uint32_t rows) {
    StreamWriter stream;
    for (const uint32_t word : {verb, object, uint32_t{AF_INET}, 0U, rows}) stream.U32(word);
    stream.Text("t");
    return stream.Finish();
  };
  const auto elements = [](const ElementLayout& layout, uint32_t labels, size_t bytes) {
    Operations operations;
    operations.Begin(Verb::kAdd, Object::kElements);
    operations.stream().Text("t");
    operations.stream().Text("s");
    operations.stream().U32(0);
    operations.Layout(layout);
    operations.stream().U32(labels);
    operations.stream().Bytes(Bytes(bytes));
    return operations.Finish();
  };
  const Case cases[] = {
      {"cut short", FromHex("00 00 00 00 00 00")},
      {"an unknown verb", table(5, 0, 1)},
      {"an unknown object", table(0, 6, 1)},
      {"a table that is inserted", table(2, 0, 1)},
      {"a row that is not there", table(0, 0, 1U << 5)},
      {"a key of no bytes", elements({0, 0, 0, ElementData::kNone}, 0, 0)},
      {"a key that is too long", elements({65, 0, 0, ElementData::kNone}, 0, 65)},
      {"data without bytes", elements({4, 0, 0, ElementData::kValue}, 0, 4)},
      {"no whole element", elements({4, 0, 0, ElementData::kNone}, 0, 6)},
      {"a verdict that is not there", elements({4, 4, 0, ElementData::kVerdict}, 0, 8)},
      {"labels that are not there", elements({4, 4, 0, ElementData::kVerdict}, 100, 0)},
      {"an unknown part", elements({4, 0, 16, ElementData::kNone}, 0, 4)},
  };
  for (const Case& given : cases) {
    const auto batch = BuildBatch(given.stream, {});
    ASSERT_FALSE(batch.ok()) << given.what;
    EXPECT_EQ(batch.error().code, EINVAL) << given.what;
    EXPECT_EQ(batch.error().text, "operation 0 is malformed") << given.what;
  }
}

TEST(NftBatch, NamesTheOperationThatIsTooLarge) {
  Operations operations;
  operations.Table(Verb::kAdd, "t");
  operations.Begin(Verb::kAdd, Object::kRule);
  auto& stream = operations.stream();
  stream.U32(8);
  stream.U32(2);
  for (int i = 0; i < 2; ++i) {
    stream.U32(0);
    stream.Text("other");
    stream.Bytes(Bytes(40'000));
  }
  const auto batch = BuildBatch(operations.Finish(), {});
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().code, EMSGSIZE);
  EXPECT_EQ(batch.error().text, "operation 1 is too large");
}

}  // namespace
}  // namespace viaduct::nftables
