#include "conntrack/conntrack_socket.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <algorithm>
#include <optional>

#include "conntrack/policy.h"
#include "conntrack_flows.h"
#include "core/message_builder.h"
#include "scripted_kernel.h"

namespace viaduct::conntrack {
namespace {

constexpr uint16_t kGet = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET;
constexpr uint16_t kDelete = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE;

/// The kernel's message about an IPv4 UDP flow. The reply goes from the backend to the client.
Bytes FlowMessage(const Flow& flow, uint32_t sequence) {
  RequestBuffer<512> buffer;
  MessageBuilder builder(buffer);
  auto* header =
      builder.BeginMessage<nfgenmsg>(NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW, NLM_F_MULTI, sequence);
  header->nfgen_family = flow.family;
  const auto put_tuple = [&](uint16_t type, const Endpoint& source, const Endpoint& destination) {
    builder.Nest(type | NLA_F_NESTED, [&] {
      builder.Nest(CTA_TUPLE_IP | NLA_F_NESTED, [&] {
        builder.Bytes(CTA_IP_V4_SRC, std::span(source.address).first(4));
        builder.Bytes(CTA_IP_V4_DST, std::span(destination.address).first(4));
      });
      builder.Nest(CTA_TUPLE_PROTO | NLA_F_NESTED, [&] {
        builder.U8(CTA_PROTO_NUM, flow.original.protocol);
        builder.U16(CTA_PROTO_SRC_PORT, htobe16(source.port));
        builder.U16(CTA_PROTO_DST_PORT, htobe16(destination.port));
      });
    });
  };
  put_tuple(CTA_TUPLE_ORIG, flow.original.source, flow.original.destination);
  put_tuple(CTA_TUPLE_REPLY, flow.reply_source, flow.original.source);
  EXPECT_TRUE(builder.FinishMessage());
  return {builder.sealed().begin(), builder.sealed().end()};
}

/// Whether a dump's request has CTA_FILTER.
bool HasFilter(const Bytes& sent) {
  AttributeTable<CTA_MAX> attributes;
  return attributes.Parse(std::span(sent).subspan(NLMSG_HDRLEN + sizeof(nfgenmsg)), kFlowPolicy) &&
         attributes.Has(CTA_FILTER);
}

/// A connection table that answers dumps and deletions.
class ConntrackSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    socket.emplace(std::move(ConntrackSocket::Open(kernel).value()));
    kernel.on_send = [this](int fd, const Bytes& sent) {
      const nlmsghdr header = HeadersOf(sent)[0];
      if (header.nlmsg_type == kGet) AnswerDump(fd, sent, header.nlmsg_seq);
      if (header.nlmsg_type == kDelete) AnswerDeletions(fd, sent);
      return 0;
    };
  }

  void AnswerDump(int fd, const Bytes& sent, uint32_t sequence) {
    const bool is_filtered = HasFilter(sent);
    ++(is_filtered ? filtered_dumps : whole_dumps);
    if (is_filtered && filter_error != 0) {
      kernel.queue(fd).push_back({MakeError(sequence, filter_error)});
      return;
    }
    for (const Flow& flow : is_filtered&& filters ? within_filter : table)
      kernel.queue(fd).push_back({FlowMessage(flow, sequence)});
    if (is_malformed) kernel.queue(fd).push_back({MakeMessage(kGet, NLM_F_MULTI, sequence, {1, 2})});
    if (dump_error != 0)
      kernel.queue(fd).push_back({MakeError(sequence, dump_error)});
    else
      kernel.queue(fd).push_back({MakeDone(sequence)});
  }

  void AnswerDeletions(int fd, const Bytes& sent) {
    for (const nlmsghdr& header : HeadersOf(sent)) {
      const int code = deletion_codes.empty() ? 0 : deletion_codes[deletions % deletion_codes.size()];
      ++deletions;
      if (code != 0) kernel.queue(fd).push_back({MakeError(header.nlmsg_seq, code)});
    }
    largest_batch = std::max(largest_batch, HeadersOf(sent).size());
  }

  Result<Cleaning> Clean(const std::vector<FrontendRecord>& frontends) {
    return socket->DeleteStale(AF_INET, frontends, {}, {});
  }

  ScriptedKernel kernel;
  std::optional<ConntrackSocket> socket;
  std::vector<Flow> table = {MakeFlow(AF_INET, 10, 53, 20), MakeFlow(AF_INET, 11, 53, 20),
                             MakeFlow(AF_INET, 12, 53, 20)};
  std::vector<Flow> within_filter = {MakeFlow(AF_INET, 10, 53, 20)};
  bool filters = true;
  bool is_malformed = false;
  int filter_error = 0;
  int dump_error = 0;
  std::vector<int> deletion_codes;  ///< in turn; 0: deleted
  int filtered_dumps = 0;
  int whole_dumps = 0;
  size_t deletions = 0;
  size_t largest_batch = 0;
};

const std::vector<FrontendRecord> kOne = {MakeFrontend(AF_INET, 10, 53, 0)};
const std::vector<FrontendRecord> kFour = {MakeFrontend(AF_INET, 10, 53, 0), MakeFrontend(AF_INET, 11, 53, 0),
                                           MakeFrontend(AF_INET, 50, 53, 0),
                                           MakeFrontend(AF_INET, 51, 53, 0)};

TEST_F(ConntrackSocketTest, DumpsFewFrontendsOneByOne) {
  auto cleaning = Clean(kOne);
  ASSERT_TRUE(cleaning.ok());
  EXPECT_TRUE(cleaning.value().is_filtered);
  EXPECT_EQ(cleaning.value().seen, 1U);
  EXPECT_EQ(cleaning.value().deleted, 1U);
  EXPECT_EQ(filtered_dumps, 1);
  EXPECT_EQ(whole_dumps, 0);
}

TEST_F(ConntrackSocketTest, ReadsTheTableOnceForMany) {
  auto cleaning = Clean(kFour);
  ASSERT_TRUE(cleaning.ok());
  EXPECT_FALSE(cleaning.value().is_filtered);
  EXPECT_EQ(cleaning.value().seen, 3U);
  EXPECT_EQ(cleaning.value().deleted, 2U);
  EXPECT_EQ(filtered_dumps, 0);
  EXPECT_EQ(whole_dumps, 1);
}

TEST_F(ConntrackSocketTest, ListsFlowsUpToTheLimit) {
  auto list = socket->ListFlows(AF_INET, kFour, {}, 1);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list.value().total, 2U);
  ASSERT_EQ(list.value().flows.size(), 1U);
  const FlowRecord& flow = list.value().flows[0];
  EXPECT_EQ(flow.destination[3], 10);
  EXPECT_EQ(flow.destination_port, 53);
  EXPECT_EQ(flow.source_port, 1000);
  EXPECT_EQ(flow.reply_source[3], 20);
  EXPECT_EQ(flow.reply_source_port, 5353);
  EXPECT_EQ(flow.protocol, IPPROTO_UDP);
  EXPECT_EQ(deletions, 0U);
}

TEST_F(ConntrackSocketTest, ListsNothingOfAFailedDump) {
  dump_error = EPERM;
  EXPECT_EQ(socket->ListFlows(AF_INET, kOne, {}, 9).error().code, EPERM);
  dump_error = 0;
  is_malformed = true;
  EXPECT_EQ(socket->ListFlows(AF_INET, kOne, {}, 9).error().code, EPROTO);
  EXPECT_TRUE(socket->ListFlows(AF_INET, {}, {}, 9).ok());
}

TEST_F(ConntrackSocketTest, CountsFlowsByDestinationAndBackend) {
  auto counts = socket->CountFlows(AF_INET, kFour, {});
  ASSERT_TRUE(counts.ok());
  ASSERT_EQ(counts.value().size(), 2U);
  EXPECT_EQ(counts.value()[0].destination[3], 10);
  EXPECT_EQ(counts.value()[1].destination[3], 11);
  for (const FlowCountRecord& count : counts.value()) {
    EXPECT_EQ(count.destination_port, 53);
    EXPECT_EQ(count.active, 1U);
    EXPECT_EQ(count.inactive, 0U);
  }
  EXPECT_TRUE(socket->CountFlows(AF_INET, {}, {}).value().empty());
  dump_error = EPERM;
  EXPECT_EQ(socket->CountFlows(AF_INET, kOne, {}).error().code, EPERM);
}

TEST_F(ConntrackSocketTest, SendsNothingWithoutFrontends) {
  auto cleaning = Clean({});
  ASSERT_TRUE(cleaning.ok());
  EXPECT_EQ(cleaning.value().deleted, 0U);
  EXPECT_TRUE(kernel.sent().empty());
}

TEST_F(ConntrackSocketTest, ReadsTheTableWhenTheKernelDoesNotFilter) {
  filters = false;
  for (int call = 1; call <= 2; ++call) {
    auto cleaning = Clean(kOne);
    ASSERT_TRUE(cleaning.ok());
    EXPECT_FALSE(cleaning.value().is_filtered);
    EXPECT_EQ(cleaning.value().seen, 3U);
    EXPECT_EQ(filtered_dumps, 1) << "requested once only";
    EXPECT_EQ(whole_dumps, call);
  }
}

TEST_F(ConntrackSocketTest, ReadsTheTableWhenTheFilterIsRefused) {
  for (const int code : {EINVAL, EOPNOTSUPP}) {
    SetUp();
    filtered_dumps = 0;
    filter_error = code;
    for (int call = 0; call < 2; ++call) {
      auto cleaning = Clean(kOne);
      ASSERT_TRUE(cleaning.ok());
      EXPECT_EQ(cleaning.value().deleted, 1U);
    }
    EXPECT_EQ(filtered_dumps, 1);
  }
}

TEST_F(ConntrackSocketTest, WithoutCtnetlinkFilterSupportStaysUnknown) {
  filter_error = dump_error = EINVAL;
  auto refused = Clean(kOne);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(refused.error().operation, "dump conntrack entries");
  filter_error = dump_error = 0;
  EXPECT_TRUE(Clean(kOne).value().is_filtered);
}

TEST_F(ConntrackSocketTest, DoesNotCountEndedFlows) {
  deletion_codes = {ENOENT, 0};
  auto cleaning = Clean(kFour);
  ASSERT_TRUE(cleaning.ok());
  EXPECT_EQ(cleaning.value().deleted, 1U);
}

TEST_F(ConntrackSocketTest, ReportsTheFirstRefusedDeletionAfterAll) {
  table.assign(5, MakeFlow(AF_INET, 10, 53, 20));
  deletion_codes = {ENOENT, EPERM, EBUSY, 0, 0};
  auto refused = Clean(kFour);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EPERM);
  EXPECT_EQ(refused.error().operation, "delete conntrack entry");
  EXPECT_EQ(deletions, 5U);
}

TEST_F(ConntrackSocketTest, CollectsABoundedNumberOfFlows) {
  table.assign(5000, MakeFlow(AF_INET, 10, 53, 20));
  auto cleaning = Clean(kFour);
  ASSERT_TRUE(cleaning.ok());
  EXPECT_EQ(cleaning.value().deleted, 5000U);
  EXPECT_LE(largest_batch, 1024U);
}

TEST_F(ConntrackSocketTest, DeletesFlowsReadBeforeADumpFailed) {
  dump_error = ENOMEM;
  auto failed = Clean(kFour);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ENOMEM);
  EXPECT_EQ(deletions, 2U);
}

TEST_F(ConntrackSocketTest, AMalformedReplyIsAnError) {
  is_malformed = true;
  auto failed = Clean(kFour);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, EPROTO);
}

}  // namespace
}  // namespace viaduct::conntrack
