#include "nftables/nft_tables.h"

#include <endian.h>
#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <optional>
#include <string>

#include "hex.h"
#include "nft_streams.h"
#include "nftables/object_codec.h"
#include "scripted_kernel.h"

namespace viaduct::nftables {
namespace {

using State = TransactionOutcome::State;

constexpr uint16_t TypeOf(uint16_t message) { return NFNL_SUBSYS_NFTABLES << 8 | message; }

/// NLMSG_ERROR with the offset of the refused attribute.
Bytes MakeErrorAt(uint32_t sequence, int code, uint32_t offset) {
  nlmsgerr fixed{};
  fixed.error = -code;
  Bytes payload(sizeof fixed);
  memcpy(payload.data(), &fixed, sizeof fixed);
  const nlattr header{NLA_HDRLEN + sizeof offset, NLMSGERR_ATTR_OFFS};
  payload.insert(payload.end(), reinterpret_cast<const uint8_t*>(&header),
                 reinterpret_cast<const uint8_t*>(&header) + sizeof header);
  payload.insert(payload.end(), reinterpret_cast<const uint8_t*>(&offset),
                 reinterpret_cast<const uint8_t*>(&offset) + sizeof offset);
  return MakeMessage(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, sequence, payload);
}

class NftTablesTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() { tables.emplace(std::move(NftTables::Open(kernel).value())); }

  /// Answers each send with the messages of `answer`, which gets the send's first sequence number.
  void Answer(std::function<std::vector<Bytes>(uint32_t sequence)> answer) {
    kernel.on_send = [this, answer = std::move(answer)](int fd, const Bytes& sent) {
      for (const Bytes& datagram : answer(HeadersOf(sent)[0].nlmsg_seq))
        kernel.queue(fd).push_back({datagram});
      return 0;
    };
  }

  TransactionOutcome Apply(Operations& operations, const BatchOptions& options = {}) {
    auto outcome = tables->Apply(operations.Finish(), options);
    EXPECT_TRUE(outcome.ok()) << outcome.error().text;
    return std::move(outcome.value());
  }

  ScriptedKernel kernel;
  std::optional<NftTables> tables;
};

const Bytes kGeneration = FromHex(R"(
  00 00 00 06                     # nfgenmsg
  08 00 01 00  00 00 00 06        # ID 6
  08 00 02 00  00 00 10 00        # PROC_PID
  09 00 03 00  6e 6f 64 65  00 00 00 00   # PROC_NAME "node"
)");

TEST_F(NftTablesTest, ReportsTheGenerationAndTheRequestedHandles) {
  const Bytes rule = FromHex("02 00 00 06  06 00 01 00 74 00 00 00  0c 00 03 00 00 00 00 00 00 00 00 2a");
  Answer([&](uint32_t sequence) {
    return std::vector<Bytes>{
        MakeMessage(TypeOf(NFT_MSG_NEWRULE), 0, sequence + 1, rule),
        Concatenate({MakeMessage(TypeOf(NFT_MSG_NEWRULE), 0, sequence + 2, rule),
                     MakeMessage(TypeOf(NFT_MSG_NEWGEN), 0, sequence + 1, kGeneration)})};
  });
  Operations operations;
  const auto outcome = Apply(operations.AcceptRule(Verb::kAdd, false).AcceptRule(Verb::kAdd, true));
  EXPECT_EQ(outcome.state, State::kApplied);
  EXPECT_EQ(outcome.generation, 6U);
  ASSERT_EQ(outcome.handles.size(), 1U) << "the echo of the first message serves the generation";
  EXPECT_EQ(outcome.handles[0].operation, 1U);
  EXPECT_EQ(outcome.handles[0].handle, 42U);
}

TEST_F(NftTablesTest, ReportsEveryRefusedOperation) {
  Answer([](uint32_t sequence) {
    return std::vector<Bytes>{MakeError(sequence + 2, ENOENT, "no such table"),
                              MakeError(sequence + 1, EBUSY), MakeError(sequence + 1, EBUSY)};
  });
  Operations operations;
  const auto outcome = Apply(operations.Table(Verb::kDelete, "a").Table(Verb::kDelete, "b"));
  EXPECT_EQ(outcome.state, State::kRefused);
  ASSERT_EQ(outcome.failures.size(), 2U);
  EXPECT_EQ(outcome.failures[0].operation, 0U);
  EXPECT_EQ(outcome.failures[0].code, EBUSY);
  EXPECT_EQ(outcome.failures[1].operation, 1U);
  EXPECT_EQ(outcome.failures[1].code, ENOENT);
  EXPECT_EQ(outcome.failures[1].text, "no such table");
}

TEST_F(NftTablesTest, AnErrorOfTheFirstMessageAppliesToTheWholeTransaction) {
  for (const int code : {ERESTART, EPERM, EOPNOTSUPP, ENOMEM}) {
    Answer([=](uint32_t sequence) { return std::vector<Bytes>{MakeError(sequence, code)}; });
    Operations operations;
    const auto outcome = Apply(operations.Table(Verb::kAdd, "t"), {.generation = 3});
    EXPECT_EQ(outcome.state, State::kRefused);
    ASSERT_EQ(outcome.failures.size(), 1U);
    EXPECT_EQ(outcome.failures[0].operation, kNoOperation);
    EXPECT_EQ(outcome.failures[0].code, code);
  }
}

TEST_F(NftTablesTest, FindsTheElementThatTheKernelNames) {
  // nlmsghdr, nfgenmsg, TABLE, SET, ELEMENTS: the first element starts at 40, each has 16 bytes.
  struct Case {
    uint32_t message;
    uint32_t offset;
    uint32_t element;
  };
  constexpr uint32_t kElements = 5000;
  // 4,000 elements are 64,000 bytes of a nest.
  for (const Case& given :
       {Case{2, 40, 0}, Case{2, 40 + 16 * 7 + 4, 7}, Case{3, 40, 4000}, Case{3, 40 + 16, 4001},
        Case{3, 20, kNoElement}, Case{3, 1 << 20, kNoElement}, Case{2, 0, kNoElement}}) {
    SCOPED_TRACE(given.offset);
    Answer([&](uint32_t sequence) {
      return std::vector<Bytes>{MakeErrorAt(sequence + given.message, EEXIST, given.offset)};
    });
    Operations operations;
    const auto outcome = Apply(operations.Table(Verb::kAdd, "t").Elements(Verb::kCreate, kElements));
    ASSERT_EQ(outcome.failures.size(), 1U);
    EXPECT_EQ(outcome.failures[0].operation, 1U);
    EXPECT_EQ(outcome.failures[0].element, given.element);
  }
}

TEST_F(NftTablesTest, ALostAnswerIsNoRefusal) {
  struct Case {
    const char* what;
    Datagram datagram;
    bool with_error;
    bool with_generation;
    State state;
    int code;
  };
  const Case cases[] = {
      {"overrun alone", {{}, ENOBUFS}, false, false, State::kUnknown, ENOBUFS},
      {"overrun behind an error", {{}, ENOBUFS}, true, false, State::kRefused, EBUSY},
      {"overrun beside the generation", {{}, ENOBUFS}, false, true, State::kApplied, 0},
      {"malformed", {{1, 2, 3}}, false, false, State::kUnknown, EPROTO},
      {"an error cut short", {MakeMessage(NLMSG_ERROR, 0, 0, {1})}, false, false, State::kUnknown, EPROTO},
  };
  for (const Case& given : cases) {
    SCOPED_TRACE(given.what);
    kernel.on_send = [&](int fd, const Bytes& sent) {
      const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
      if (given.with_error) kernel.queue(fd).push_back({MakeError(sequence + 1, EBUSY)});
      Datagram datagram = given.datagram;
      if (datagram.bytes.size() >= NLMSG_HDRLEN)
        memcpy(datagram.bytes.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof sequence);
      kernel.queue(fd).push_back(datagram);
      if (given.with_generation)
        kernel.queue(fd).push_back({MakeMessage(TypeOf(NFT_MSG_NEWGEN), 0, sequence + 1, kGeneration)});
      return 0;
    };
    Operations operations;
    const auto outcome = Apply(operations.Table(Verb::kAdd, "t"));
    EXPECT_EQ(outcome.state, given.state);
    EXPECT_EQ(outcome.failures.empty() ? 0 : outcome.failures[0].code, given.code);
  }
}

TEST_F(NftTablesTest, NeverSendsATransactionInParts) {
  for (const int code : {ENOMEM, ENOBUFS}) {
    int sends = 0;
    kernel.on_send = [&](int, const Bytes&) {
      ++sends;
      return code;
    };
    Operations operations;
    const auto outcome =
        tables->Apply(operations.Table(Verb::kAdd, "t").Elements(Verb::kAdd, 9000).Finish(), {});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, code);
    EXPECT_EQ(outcome.error().operation, "send nf_tables transaction");
    EXPECT_EQ(sends, 1);
  }
}

TEST_F(NftTablesTest, GrowsTheSendBufferForATransactionThatNeedsIt) {
  Operations operations;
  // 16 bytes each make 9.6 MB. The buffer has 8 MB at the start.
  EXPECT_EQ(Apply(operations.Elements(Verb::kAdd, 600'000)).state, State::kApplied);
  EXPECT_GT(kernel.sent().back().size(), 9'000'000U);
}

TEST_F(NftTablesTest, ReportsASendBufferThatCannotGrow) {
  kernel.can_force_buffers = false;
  Open();
  Operations operations;
  const auto outcome = tables->Apply(operations.Elements(Verb::kAdd, 20'000).Finish(), {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, EMSGSIZE);
  EXPECT_EQ(outcome.error().text, "320280 bytes, and the send buffer takes 212960");
  EXPECT_TRUE(kernel.sent().empty());
}

TEST_F(NftTablesTest, ReadsTheGeneration) {
  Answer([](uint32_t sequence) {
    return std::vector<Bytes>{MakeMessage(TypeOf(NFT_MSG_NEWGEN), 0, sequence, kGeneration),
                              MakeError(sequence, 0)};
  });
  const auto generation = tables->Generation();
  ASSERT_TRUE(generation.ok());
  EXPECT_EQ(generation.value(), 6U);
  Answer([](uint32_t sequence) { return std::vector<Bytes>{MakeError(sequence, EINVAL)}; });
  EXPECT_EQ(tables->Generation().error().operation, "read nf_tables generation");
}

Bytes ListRequest(Listed kind, std::string_view table) {
  StreamWriter request;
  request.U32(static_cast<uint32_t>(kind));
  request.U32(AF_INET);
  request.Text(table);
  request.Text("");
  return request.Finish();
}

Bytes Chain(const char* table) {
  return FromHex("02 00 00 0a  06 00 01 00 " + std::string(table) + " 00 00 00  06 00 03 00 63 00 00 00");
}

TEST_F(NftTablesTest, ListsTheObjectsOfATableAndDiscardsAnInterruptedDump) {
  bool is_first = true;
  Answer([&](uint32_t sequence) {
    const uint16_t flags = std::exchange(is_first, false) ? NLM_F_MULTI | NLM_F_DUMP_INTR : NLM_F_MULTI;
    return std::vector<Bytes>{MakeMessage(TypeOf(NFT_MSG_NEWCHAIN), flags, sequence, Chain("74")),
                              MakeMessage(TypeOf(NFT_MSG_NEWCHAIN), flags, sequence, Chain("75")),
                              MakeDone(sequence)};
  });
  const auto chains = tables->List(ListRequest(Listed::kChains, "t"));
  ASSERT_TRUE(chains.ok());
  EXPECT_TRUE(HasBytes(chains.value(), R"(
    05 00 00 00                            # TABLE and NAME
    01 00 00 00  74 00 00 00
    01 00 00 00  63 00 00 00
  )"));
}

TEST_F(NftTablesTest, ListsNoObjectsOfOtherTypes) {
  const Bytes quota =
      FromHex("02 00 00 0a  06 00 01 00 74 00 00 00  08 00 03 00 00 00 00 02  08 00 04 80 05 00 01 00");
  Answer([&](uint32_t sequence) {
    return std::vector<Bytes>{MakeMessage(TypeOf(NFT_MSG_NEWOBJ), NLM_F_MULTI, sequence, quota),
                              MakeDone(sequence)};
  });
  const auto counters = tables->List(ListRequest(Listed::kNamedCounters, "t"));
  ASSERT_TRUE(counters.ok());
  EXPECT_TRUE(counters.value().empty());
}

TEST_F(NftTablesTest, AMalformedObjectOrRequestIsAnError) {
  Answer([&](uint32_t sequence) {
    return std::vector<Bytes>{
        MakeMessage(TypeOf(NFT_MSG_NEWCHAIN), NLM_F_MULTI, sequence, {2, 0, 0, 0, 6, 0, 1}),
        MakeDone(sequence)};
  });
  EXPECT_EQ(tables->List(ListRequest(Listed::kChains, "")).error().code, EPROTO);
  EXPECT_EQ(tables->List(FromHex("09 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00")).error().code, EINVAL);
  EXPECT_EQ(tables->List(ListRequest(Listed::kChains, std::string(600, 'x'))).error().code, ENAMETOOLONG);
  EXPECT_EQ(tables->ListElements(FromHex("02 00")).error().code, EINVAL);
}

TEST_F(NftTablesTest, ReadsTheEndOfAnIntervalWithoutData) {
  // An old kernel keeps data that a program writes for an end.
  const Bytes elements = FromHex(R"(
    02 00 00 0a
    06 00 01 00  74 00 00 00
    06 00 02 00  6d 00 00 00
    64 00 03 80
      18 00 01 80
        0c 00 01 80  08 00 01 00  0a 00 02 00                # KEY
        08 00 03 00  00 00 00 01                             # FLAGS INTERVAL_END
      28 00 01 80
        0c 00 01 80  08 00 01 00  0a 00 01 00
        10 00 02 80  0c 00 02 80  08 00 01 00  00 00 00 00   # DATA, VERDICT, CODE drop
        08 00 03 00  00 00 00 01
      20 00 01 80
        0c 00 01 80  08 00 01 00  0a 00 00 00
        10 00 02 80  0c 00 02 80  08 00 01 00  00 00 00 01   # CODE accept
  )");
  Answer([&](uint32_t sequence) {
    return std::vector<Bytes>{MakeMessage(TypeOf(NFT_MSG_NEWSETELEM), NLM_F_MULTI, sequence, elements),
                              MakeDone(sequence)};
  });
  StreamWriter request;
  request.U32(AF_INET);
  request.Text("t");
  request.Text("m");
  for (const uint32_t word : {4U, 4U, uint32_t{kFlagsPart}, 2U, 0U}) request.U32(word);
  const auto read = tables->ListElements(request.Finish());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(HasBytes(read.value(), R"(
    01 00 00 00  0c 00 00 00                               # one label of 12 bytes
    02 00 00 00                                            # VERDICT
    01 00 00 00  01 00 00 00                               # CODE accept
    24 00 00 00
    0a 00 02 00  00 00 00 00  01 00 00 00                  # key, no data, flags
    0a 00 01 00  00 00 00 00  01 00 00 00
    0a 00 00 00  00 00 00 00  00 00 00 00                  # label 0
    00 00 00 00                                            # not interrupted
  )"));
}

TEST_F(NftTablesTest, ReadsElementsAsTheLayoutSays) {
  const Bytes elements = FromHex(R"(
    02 00 00 0a
    06 00 01 00  74 00 00 00
    06 00 02 00  6d 00 00 00
    50 00 03 80
      20 00 01 80
        0c 00 01 80  08 00 01 00  0a 00 00 01
        10 00 02 80  0c 00 02 80  08 00 01 00  ff ff ff fc
      2c 00 01 80
        0c 00 01 80  08 00 01 00  0a 00 00 02
        0c 00 02 80  08 00 01 00  00 00 00 02
        0c 00 05 00  00 00 00 00  00 00 03 e8
  )");
  Answer([&](uint32_t sequence) {
    return std::vector<Bytes>{MakeMessage(TypeOf(NFT_MSG_NEWSETELEM), NLM_F_MULTI, sequence, elements),
                              MakeDone(sequence)};
  });
  StreamWriter request;
  request.U32(AF_INET);
  request.Text("t");
  request.Text("m");
  for (const uint32_t word : {4U, 4U, uint32_t{kExpirationPart}, 1U, 1U}) request.U32(word);
  const Bytes wanted = request.Finish();
  EXPECT_EQ(tables->ListElements(wanted).error().code, EPROTO) << "a verdict is no value";
  const Bytes values = FromHex(R"(
    02 00 00 0a
    06 00 01 00  74 00 00 00
    06 00 02 00  6d 00 00 00
    28 00 03 80
      24 00 01 80
        0c 00 01 80  08 00 01 00  0a 00 00 02
        0c 00 02 80  08 00 01 00  00 00 00 02
        08 00 03 00  00 00 00 00
  )");
  Answer([&](uint32_t sequence) {
    const uint16_t flags = NLM_F_MULTI | NLM_F_DUMP_INTR;
    return std::vector<Bytes>{MakeMessage(TypeOf(NFT_MSG_NEWSETELEM), flags, sequence, values),
                              MakeDone(sequence)};
  });
  const auto read = tables->ListElements(wanted);
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(HasBytes(read.value(), R"(
    00 00 00 00                                                          # no labels
    10 00 00 00  0a 00 00 02  00 00 00 02  00 00 00 00 00 00 00 00       # key, data, expiration
    01 00 00 00                                                          # interrupted, and not read again
  )"));
}

/// A request for elements by key of set "t s" with keys and values of four bytes.
Bytes KeyRequest(uint32_t count) {
  StreamWriter request;
  request.U32(AF_INET);
  request.Text("t");
  request.Text("s");
  for (const uint32_t word : {4U, 4U, 0U, 1U}) request.U32(word);
  Bytes keys;
  for (uint32_t i = 0; i < count; ++i)
    for (const int shift : {24, 16, 8, 0}) keys.push_back(static_cast<uint8_t>(i >> shift));
  request.Bytes(keys);
  return request.Finish();
}

/// The keys of a request by key: it has no other data.
std::vector<uint32_t> KeysOf(const Bytes& sent) {
  constexpr size_t kElements = NLMSG_HDRLEN + 4 + 8 + 8 + 4;  // nfgenmsg, TABLE, SET, ELEMENTS
  std::vector<uint32_t> keys;
  for (size_t at = kElements; at + 16 <= sent.size(); at += 16)
    keys.push_back(be32toh(ReadAs<uint32_t>(std::span(sent).subspan(at + 12))));
  return keys;
}

Bytes Element(uint32_t sequence, uint32_t key) {
  Bytes bytes = FromHex(R"(
    02 00 00 0a
    06 00 01 00  74 00 00 00
    06 00 02 00  73 00 00 00
    20 00 03 80  1c 00 01 80
      0c 00 01 80  08 00 01 00  00 00 00 00
      0c 00 02 80  08 00 01 00  00 00 00 07
  )");
  const uint32_t number = htobe32(key);
  memcpy(bytes.data() + 36, &number, sizeof number);
  return MakeMessage(TypeOf(NFT_MSG_NEWSETELEM), 0, sequence, bytes);
}

TEST_F(NftTablesTest, FindsElementsByKeyAndGoesOnBehindAnAbsentOne) {
  constexpr uint32_t kCount = 5000;
  const auto is_absent = [](uint32_t key) {
    return key == 0 || key == 1 || key == 1700 || key == kCount - 1;
  };
  size_t requests = 0;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    ++requests;
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    if (HeadersOf(sent)[0].nlmsg_type == TypeOf(NFT_MSG_GETSET)) {
      kernel.queue(fd).push_back({MakeError(sequence, 0)});
      return 0;
    }
    const auto keys = KeysOf(sent);
    EXPECT_LE(keys.size(), 1000U);
    for (const uint32_t key : keys) {
      if (is_absent(key)) {
        kernel.queue(fd).push_back({MakeError(sequence, ENOENT)});
        break;
      }
      kernel.queue(fd).push_back({Element(sequence, key)});
    }
    return 0;
  };
  const auto read = tables->FindElements(KeyRequest(kCount));
  ASSERT_TRUE(read.ok()) << read.error().text;
  StreamReader stream(read.value());
  EXPECT_EQ(stream.U32(), 0U) << "no labels";
  const auto elements = stream.Bytes();
  ASSERT_EQ(elements.size(), size_t{kCount - 4} * 8);
  uint32_t key = 0;
  for (size_t at = 0; at < elements.size(); at += 8, ++key) {
    while (is_absent(key)) ++key;
    EXPECT_EQ(be32toh(ReadAs<uint32_t>(elements.subspan(at))), key);
  }
  EXPECT_LE(requests, 16U);
}

TEST_F(NftTablesTest, AnAbsentSetAndLostAnswersAreErrors) {
  Answer([](uint32_t sequence) { return std::vector<Bytes>{MakeError(sequence, ENOENT)}; });
  EXPECT_EQ(tables->FindElements(KeyRequest(3)).error().code, ENOENT);
  Answer([](uint32_t sequence) { return std::vector<Bytes>{MakeError(sequence, EPERM)}; });
  EXPECT_EQ(tables->FindElements(KeyRequest(3)).error().code, EPERM);
  kernel.on_send = [&](int fd, const Bytes&) {
    kernel.queue(fd).push_back({{}, ENOBUFS});
    return 0;
  };
  EXPECT_EQ(tables->FindElements(KeyRequest(3)).error().code, ENOBUFS);
  EXPECT_EQ(tables->FindElements(FromHex("02 00")).error().code, EINVAL);
}

}  // namespace
}  // namespace viaduct::nftables
