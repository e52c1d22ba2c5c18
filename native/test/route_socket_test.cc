#include "route/route_socket.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>

#include "hex.h"
#include "scripted_kernel.h"

namespace viaduct::route {
namespace {

const Bytes kLink = FromHex("00 00 01 00 05 00 00 00 00 00 00 00 00 00 00 00 06 00 03 00 64 30 00 00");

/// To 10.0.0.1.
constexpr RouteQueryRecord kQuery{{10, 0, 0, 1}, {}, 0, 0, 0, AF_INET, 0};

class RouteSocketTest : public testing::Test {
 protected:
  void SetUp() override { socket.emplace(std::move(RouteSocket::Open(kernel).value())); }

  ScriptedKernel kernel;
  std::optional<RouteSocket> socket;
};

TEST_F(RouteSocketTest, DiscardsAMalformedEntryOfAnInterruptedDump) {
  bool is_first = true;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    const bool is_interrupted = std::exchange(is_first, false);
    const uint16_t flags = is_interrupted ? NLM_F_MULTI | NLM_F_DUMP_INTR : NLM_F_MULTI;
    const Bytes entry = is_interrupted ? Bytes{1, 2} : kLink;
    kernel.queue(fd).push_back(
        {Concatenate({MakeMessage(RTM_NEWLINK, flags, sequence, entry), MakeDone(sequence)})});
    return 0;
  };
  auto links = socket->DumpLinks();
  ASSERT_TRUE(links.ok());
  EXPECT_EQ(links.value().size(), 1U);
}

TEST_F(RouteSocketTest, DistinguishesAFailedCreationFromAFailedLookup) {
  struct Row {
    uint16_t refused;
    const char* operation;
  };
  for (const Row& row : {Row{RTM_NEWLINK, "add dummy device"}, Row{RTM_GETLINK, "find new dummy device"}}) {
    kernel.on_send = [&](int fd, const Bytes& sent) {
      const nlmsghdr header = HeadersOf(sent)[0];
      kernel.queue(fd).push_back(
          {MakeError(header.nlmsg_seq, header.nlmsg_type == row.refused ? ENODEV : 0)});
      return 0;
    };
    auto index = socket->AddDummy("d0");
    ASSERT_FALSE(index.ok());
    EXPECT_EQ(index.error().code, ENODEV);
    EXPECT_EQ(index.error().operation, row.operation);
  }
}

TEST_F(RouteSocketTest, APacketThatTheKernelDoesNotRouteIsAnAnswer) {
  for (const int refusal : {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EXDEV}) {
    kernel.on_send = [&](int fd, const Bytes& sent) {
      kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, refusal)});
      return 0;
    };
    auto choices = socket->LookUp(std::vector<RouteQueryRecord>{kQuery, kQuery});
    ASSERT_TRUE(choices.ok());
    ASSERT_EQ(choices.value().size(), 2U);
    EXPECT_EQ(choices.value()[1].error, static_cast<uint32_t>(refusal));
  }
}

TEST_F(RouteSocketTest, ALookupThatTheKernelDoesNotTakeFails) {
  struct Row {
    int refusal;
    const char* text;
  };
  for (const Row& row : {Row{ENODEV, ""}, Row{EINVAL, "Invalid values in header for get route request"}}) {
    kernel.on_send = [&](int fd, const Bytes& sent) {
      kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, row.refusal, row.text)});
      return 0;
    };
    auto choices = socket->LookUp(std::vector<RouteQueryRecord>{kQuery});
    ASSERT_FALSE(choices.ok());
    EXPECT_EQ(choices.error().code, row.refusal);
    EXPECT_EQ(choices.error().operation, std::string("look up route"));
    EXPECT_EQ(choices.error().text, std::string(row.text));
  }
}

TEST_F(RouteSocketTest, AMalformedAnswerOfALookupIsAnError) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    kernel.queue(fd).push_back(
        {Concatenate({MakeMessage(RTM_NEWROUTE, 0, sequence, Bytes{1, 2}), MakeError(sequence, 0)})});
    return 0;
  };
  auto choices = socket->LookUp(std::vector<RouteQueryRecord>{kQuery});
  ASSERT_FALSE(choices.ok());
  EXPECT_EQ(choices.error().code, EPROTO);
}

TEST_F(RouteSocketTest, AKernelWithoutPolicyRoutingHasNoRules) {
  for (const int refusal : {EAFNOSUPPORT, EOPNOTSUPP}) {
    kernel.on_send = [&](int fd, const Bytes& sent) {
      kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, refusal)});
      return 0;
    };
    auto rules = socket->DumpRules(AF_INET6);
    ASSERT_TRUE(rules.ok());
    EXPECT_TRUE(rules.value().empty());
  }
}

TEST_F(RouteSocketTest, ARefusalMayComeAtTheEndOfARuleDump) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    // -EAFNOSUPPORT
    const Bytes code = {0x9f, 0xff, 0xff, 0xff};
    kernel.queue(fd).push_back({MakeMessage(NLMSG_DONE, NLM_F_MULTI, HeadersOf(sent)[0].nlmsg_seq, code)});
    return 0;
  };
  auto rules = socket->DumpRules(AF_INET6);
  ASSERT_TRUE(rules.ok());
  EXPECT_TRUE(rules.value().empty());
}

TEST_F(RouteSocketTest, AnyOtherRefusalOfARuleDumpIsAnError) {
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, EPERM)});
    return 0;
  };
  auto rules = socket->DumpRules(AF_INET);
  ASSERT_FALSE(rules.ok());
  EXPECT_EQ(rules.error().code, EPERM);
  EXPECT_EQ(rules.error().operation, std::string("dump policy routing rules"));
}

}  // namespace
}  // namespace viaduct::route
