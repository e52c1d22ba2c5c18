#include "nftables/nft_socket.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <optional>
#include <string>

#include "hex.h"
#include "nftables/decode.h"
#include "scripted_kernel.h"

namespace viaduct::nftables {
namespace {

constexpr uint16_t kNewChain = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN;

constexpr const char* kChain = R"(
  02 00 00 0a                                          # nfgenmsg
  08 00 01 00  6e 61 74 00                             # TABLE "nat"
  0c 00 02 00  00 00 00 00  00 00 00 05                # HANDLE, which we do not read
  12 00 03 00  4b 55 42 45  2d 53 45 52  56 49 43 45  53 00 00 00   # NAME "KUBE-SERVICES"
)";

TEST(DecodeChainName, ReadsTableAndName) {
  const Bytes message = FromHex(kChain);
  const auto name = DecodeChainName(message);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->table, "nat");
  EXPECT_EQ(name->chain, "KUBE-SERVICES");
}

TEST(DecodeChainName, RefusesIncompleteMessages) {
  EXPECT_FALSE(DecodeChainName(FromHex("02 00 00"))) << "short header";
  EXPECT_FALSE(DecodeChainName(FromHex("02 00 00 00 08 00 01 00 6e 61 74 00"))) << "no name";
  EXPECT_FALSE(DecodeChainName(FromHex("02 00 00 00 05 00 01 00 00 00 00 00 06 00 03 00 4b 00 00 00")))
      << "no table";
}

class NftSocketTest : public testing::Test {
 protected:
  void SetUp() override { socket.emplace(std::move(NftSocket::Open(kernel).value())); }

  ScriptedKernel kernel;
  std::optional<NftSocket> socket;
};

TEST_F(NftSocketTest, ListsNamesAndDiscardsThoseOfAnInterruptedDump) {
  bool is_first = true;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    EXPECT_TRUE(HasBytes(std::span(sent).first(6), "14 00 00 00 04 0a")) << "NFT_MSG_GETCHAIN";
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    const bool is_interrupted = std::exchange(is_first, false);
    const uint16_t flags = is_interrupted ? NLM_F_MULTI | NLM_F_DUMP_INTR : NLM_F_MULTI;
    const Bytes chain = is_interrupted ? Bytes{1, 2} : FromHex(kChain);
    kernel.queue(fd).push_back({MakeMessage(kNewChain, flags, sequence, FromHex(kChain))});
    kernel.queue(fd).push_back({MakeMessage(kNewChain, flags, sequence, chain)});
    kernel.queue(fd).push_back({MakeDone(sequence)});
    return 0;
  };
  auto names = socket->ListChains(AF_INET);
  ASSERT_TRUE(names.ok());
  const std::string once("nat\0KUBE-SERVICES\0", 18);
  EXPECT_EQ(std::string(names.value().begin(), names.value().end()), once + once);
}

TEST_F(NftSocketTest, NamesTheOperationThatFailed) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    kernel.queue(fd).push_back({MakeError(sequence, EINVAL)});
    return 0;
  };
  auto names = socket->ListChains(AF_INET);
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.error().code, EINVAL);
  EXPECT_EQ(names.error().operation, "dump nf_tables chains");
}

TEST_F(NftSocketTest, AMalformedReplyIsAnError) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    kernel.queue(fd).push_back(
        {Concatenate({MakeMessage(kNewChain, NLM_F_MULTI, sequence, {1, 2}), MakeDone(sequence)})});
    return 0;
  };
  auto names = socket->ListChains(AF_INET);
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.error().code, EPROTO);
}

TEST_F(NftSocketTest, DeletesATableInATransactionOfItsOwn) {
  Bytes sent;
  kernel.on_send = [&](int, const Bytes& bytes) {
    sent = bytes;
    return 0;
  };
  EXPECT_TRUE(socket->DeleteTable(AF_INET6, "kube-proxy").ok());
  EXPECT_TRUE(HasBytes(sent, R"(
    14 00 00 00  10 00 01 00  01 00 00 00  00 00 00 00   # NFNL_MSG_BATCH_BEGIN, REQUEST
    00 00 00 0a                                          # nfgenmsg: of nf_tables
    24 00 00 00  02 0a 01 00  02 00 00 00  00 00 00 00   # NFT_MSG_DELTABLE, REQUEST
    0a 00 00 00                                          # nfgenmsg: AF_INET6
    0f 00 01 00  6b 75 62 65  2d 70 72 6f  78 79 00 00   # NAME "kube-proxy"
    14 00 00 00  11 00 01 00  03 00 00 00  00 00 00 00   # NFNL_MSG_BATCH_END, REQUEST
    00 00 00 0a
  )"));
}

TEST_F(NftSocketTest, TheFirstRefusalOfATransactionIsItsError) {
  // `offset` is the index of the refused message: 0 for the whole transaction, 1 for the table.
  for (const auto& [offset, code] : {std::pair{1u, ENOENT}, std::pair{0u, EOPNOTSUPP}}) {
    kernel.on_send = [&, offset = offset, code = code](int fd, const Bytes& sent) {
      kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq + offset, code)});
      return 0;
    };
    const Status deleted = socket->DeleteTable(AF_INET, "kube-proxy");
    ASSERT_FALSE(deleted.ok());
    EXPECT_EQ(deleted.error().code, code);
    EXPECT_EQ(deleted.error().operation, "delete nf_tables table");
  }
}

TEST_F(NftSocketTest, ATransactionIsNeverSentInParts) {
  int sends = 0;
  kernel.on_send = [&](int, const Bytes&) {
    ++sends;
    return ENOMEM;
  };
  EXPECT_EQ(socket->DeleteTable(AF_INET, "kube-proxy").error().code, ENOMEM);
  EXPECT_EQ(sends, 1);
}

TEST_F(NftSocketTest, ALostAnswerIsNoSuccess) {
  kernel.on_send = [&](int fd, const Bytes&) {
    kernel.queue(fd).push_back({{}, ENOBUFS});
    return 0;
  };
  EXPECT_EQ(socket->DeleteTable(AF_INET, "kube-proxy").error().code, ENOBUFS);
}

TEST_F(NftSocketTest, ATooLongNameIsRefused) {
  kernel.on_send = [](int, const Bytes&) { return 0; };
  EXPECT_TRUE(socket->DeleteTable(AF_INET, std::string(NFT_NAME_MAXLEN - 1, 'x')).ok());
  EXPECT_EQ(socket->DeleteTable(AF_INET, std::string(NFT_NAME_MAXLEN, 'x')).error().code, ENAMETOOLONG);
}

TEST_F(NftSocketTest, LoadsTheModuleByBothRequests) {
  std::vector<Bytes> requests;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    requests.push_back(sent);
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    constexpr uint16_t kType = NFNL_SUBSYS_NFT_COMPAT << 8;
    kernel.queue(fd).push_back({MakeMessage(kType, 0, sequence, {2, 0, 0, 0})});
    kernel.queue(fd).push_back({MakeError(sequence, 0)});
    return 0;
  };
  EXPECT_TRUE(socket->LoadXtables(AF_INET).ok());
  EXPECT_TRUE(socket->LoadXtables(AF_INET6).ok());
  EXPECT_EQ(kernel.interfaces_asked, (std::vector<std::string>{"ip_tables", "ip6_tables"}));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(HasBytes(requests[0], R"(
    30 00 00 00  00 0b 05 00  01 00 00 00  00 00 00 00   # NFNL_MSG_COMPAT_GET, REQUEST and ACK
    02 00 00 00                                          # nfgenmsg: AF_INET
    09 00 01 00  69 63 6d 70  00 00 00 00                # NAME "icmp"
    08 00 02 00  00 00 00 00                             # REV 0
    08 00 03 00  00 00 00 00                             # TYPE 0: a match
  )"));
  EXPECT_TRUE(HasBytes(requests[1], R"(
    30 00 00 00  00 0b 05 00  02 00 00 00  00 00 00 00
    0a 00 00 00
    0a 00 01 00  69 63 6d 70  36 00 00 00                # NAME "icmp6"
    08 00 02 00  00 00 00 00
    08 00 03 00  00 00 00 00
  )"));
}

TEST_F(NftSocketTest, ReportsAKernelWithoutTheCompatibilityLayer) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, EINVAL)});
    return 0;
  };
  const Status loaded = socket->LoadXtables(AF_INET);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, EINVAL);
  EXPECT_EQ(loaded.error().operation, "load x_tables");
}

}  // namespace
}  // namespace viaduct::nftables
