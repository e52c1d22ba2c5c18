#include "nftables/nft_events.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <optional>
#include <string>

#include "hex.h"
#include "scripted_kernel.h"

namespace viaduct::nftables {
namespace {

constexpr uint16_t TypeOf(uint16_t message) { return NFNL_SUBSYS_NFTABLES << 8 | message; }
// The port id that MakeMessage() writes.
constexpr uint32_t kWriter = 4711;

const Bytes kElement = FromHex("02 00 00 05  06 00 01 00 74 00 00 00  06 00 02 00 73 00 00 00");
const Bytes kRule = FromHex("0a 00 00 05  06 00 01 00 74 00 00 00  06 00 02 00 63 00 00 00");
const Bytes kInetTable = FromHex("01 00 00 05  06 00 01 00 74 00 00 00");
const Bytes kGeneration = FromHex(R"(
  00 00 00 05
  08 00 01 00  00 00 00 05
  08 00 02 00  00 00 00 2a
  08 00 03 00  6e 66 74 00
)");

/// Generation 5, thread 42, "nft", and one change.
constexpr const char* kOneElement = R"(
  00 00 00 00                                # nothing was lost
  05 00 00 00  2a 00 00 00                   # generation, thread
  03 00 00 00  6e 66 74 00                   # "nft"
  01 00 00 00                                # one object
  04 00 00 00  02 00 00 00                   # elements, AF_INET
  01 00 00 00  74 00 00 00                   # "t"
  01 00 00 00  73 00 00 00                   # "s"
)";

class NftEventsTest : public testing::Test {
 protected:
  void SetUp() override { Open(1); }

  void Open(uint32_t own_port) {
    events.emplace(std::move(NftEvents::Open(own_port, kernel).value()));
    fd = kernel.last_socket();
  }
  void Push(uint16_t message, const Bytes& payload, uint16_t flags = 0) {
    kernel.queue(fd).push_back({MakeMessage(TypeOf(message), flags, 0, payload)});
  }
  Bytes Next() {
    auto next = events->Next(std::chrono::milliseconds(1));
    EXPECT_TRUE(next.ok());
    return next.value();
  }

  ScriptedKernel kernel;
  std::optional<NftEvents> events;
  int fd = -1;
};

TEST_F(NftEventsTest, ReportsEachChangedObjectOnce) {
  for (int i = 0; i < 100; ++i) Push(NFT_MSG_NEWSETELEM, kElement);
  Push(NFT_MSG_DELSETELEM, kElement);
  Push(NFT_MSG_NEWGEN, kGeneration);
  EXPECT_TRUE(HasBytes(Next(), kOneElement));
}

TEST_F(NftEventsTest, WaitsForTheEndOfATransaction) {
  Push(NFT_MSG_NEWSETELEM, kElement);
  EXPECT_TRUE(Next().empty());
  Push(NFT_MSG_NEWGEN, kGeneration);
  EXPECT_TRUE(HasBytes(Next(), kOneElement));
}

TEST_F(NftEventsTest, DistinguishesKindsAndFamilies) {
  Push(NFT_MSG_DELRULE, kRule);
  Push(28, kRule);  // NFT_MSG_DESTROYRULE
  Push(NFT_MSG_NEWTABLE, kInetTable);
  Push(NFT_MSG_NEWSETELEM, kElement);
  Push(NFT_MSG_NEWGEN, kGeneration);
  const Bytes next = Next();
  ASSERT_GE(next.size(), 24U);
  EXPECT_TRUE(HasBytes(std::span(next).subspan(20), R"(
    02 00 00 00
    02 00 00 00  0a 00 00 00  01 00 00 00  74 00 00 00  01 00 00 00  63 00 00 00   # rules, AF_INET6
    04 00 00 00  02 00 00 00  01 00 00 00  74 00 00 00  01 00 00 00  73 00 00 00
  )"));
}

TEST_F(NftEventsTest, DistinguishesNewChainsFromUpdates) {
  const Bytes chain = FromHex("02 00 00 05  06 00 01 00 74 00 00 00  06 00 03 00 63 00 00 00");
  Push(NFT_MSG_NEWCHAIN, chain);
  Push(NFT_MSG_NEWCHAIN, chain, NLM_F_CREATE);
  Push(NFT_MSG_NEWCHAIN, chain, NLM_F_EXCL);
  Push(NFT_MSG_NEWGEN, kGeneration);
  const Bytes next = Next();
  ASSERT_GE(next.size(), 24U);
  EXPECT_TRUE(HasBytes(std::span(next).subspan(20), R"(
    02 00 00 00
    01 00 00 00  02 00 00 00  01 00 00 00  74 00 00 00  01 00 00 00  63 00 00 00   # chain
    06 00 00 00  02 00 00 00  01 00 00 00  74 00 00 00  01 00 00 00  63 00 00 00   # update of a chain
  )"));
}

TEST_F(NftEventsTest, LeavesOutOtherFamiliesAndOwnTransactions) {
  Push(NFT_MSG_NEWTABLE, kInetTable);
  Push(NFT_MSG_NEWGEN, kGeneration);
  EXPECT_TRUE(Next().empty());
  Open(kWriter);
  Push(NFT_MSG_NEWSETELEM, kElement);
  Push(NFT_MSG_NEWGEN, kGeneration);
  EXPECT_TRUE(Next().empty());
}

TEST_F(NftEventsTest, ReportsLostEventsOnce) {
  Push(NFT_MSG_NEWSETELEM, kElement);
  kernel.queue(fd).push_back({{}, ENOBUFS});
  EXPECT_TRUE(HasBytes(Next(), "01 00 00 00"));
  Push(NFT_MSG_NEWSETELEM, kElement);
  Push(NFT_MSG_NEWGEN, kGeneration);
  EXPECT_TRUE(HasBytes(Next(), kOneElement)) << "and are no longer";
}

TEST_F(NftEventsTest, ReportsTooManyObjectsAsLostEvents) {
  for (int i = 0; i < 5000; ++i) {
    const std::string name = std::to_string(10'000 + i);
    Bytes chain = FromHex("02 00 00 05  06 00 01 00 74 00 00 00  0a 00 03 00");
    chain.insert(chain.end(), name.begin(), name.end());
    chain.resize(chain.size() + 3);
    Push(NFT_MSG_NEWCHAIN, chain);
  }
  const Bytes next = Next();
  EXPECT_TRUE(HasBytes(next, "01 00 00 00"));
}

TEST_F(NftEventsTest, IgnoresForgedAndShortMessages) {
  Datagram forged{MakeMessage(TypeOf(NFT_MSG_NEWSETELEM), 0, 0, kElement)};
  forged.sender = 5;
  kernel.queue(fd).push_back(forged);
  Push(NFT_MSG_NEWSETELEM, {2, 0});
  Push(NFT_MSG_NEWGEN, kGeneration);
  EXPECT_TRUE(Next().empty());
}

TEST_F(NftEventsTest, ReportsAMalformedGenerationAsLostEvents) {
  Push(NFT_MSG_NEWSETELEM, kElement);
  Push(NFT_MSG_NEWGEN, FromHex("00 00 00 05  06 00 01 00 00 00 00 00"));
  EXPECT_TRUE(HasBytes(Next(), "01 00 00 00"));
}

TEST_F(NftEventsTest, AShortageOfMemoryLosesEvents) {
  kernel.receive_errors = {ENOMEM};
  Push(NFT_MSG_NEWTABLE, kInetTable);
  EXPECT_TRUE(HasBytes(Next(), "01 00 00 00"));
}

TEST_F(NftEventsTest, IgnoredMessagesDoNotProlongAWait) {
  const auto start = kernel.elapsed();
  kernel.on_poll = [&, messages = 10](int) mutable {
    if (messages-- <= 0) return 0;
    kernel.Pass(std::chrono::seconds(1));
    Push(NFT_MSG_NEWTABLE, kInetTable);
    return 0;
  };
  auto next = events->Next(std::chrono::seconds(5));
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(next.value().empty());
  EXPECT_EQ(kernel.elapsed() - start, std::chrono::seconds(5));
}

TEST_F(NftEventsTest, WakeEndsAWait) {
  events->Wake();
  EXPECT_TRUE(Next().empty());
}

}  // namespace
}  // namespace viaduct::nftables
