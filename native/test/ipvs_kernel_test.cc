// The IPVS socket on the real kernel: needs root, IP_VS and a network namespace without virtual servers, as
// in the guest. Ends at once, with status 77, on a kernel without IP_VS.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cerrno>

#include "ipvs/ipvs_socket.h"
#include "ipvs_records.h"

namespace viaduct::ipvs {
namespace {

constexpr int kUnusableKernel = 77;

class IpvsKernel : public testing::Test {
 protected:
  /// The tests remove all virtual servers, so the namespace must not have any.
  static void SetUpTestSuite() {
    auto socket = IpvsSocket::Open();
    ASSERT_TRUE(socket.ok());
    auto info = socket.value().GetInfo();
    if (info.ok() && info.value().ipv4_virtual_servers == 0) return;
    fprintf(stderr, "ipvs_kernel_test: needs IP_VS and a namespace without virtual servers\n");
    exit(kUnusableKernel);
  }

  void SetUp() override {
    auto opened = IpvsSocket::Open();
    ASSERT_TRUE(opened.ok());
    socket.emplace(std::move(opened.value()));
  }

  void TearDown() override {
    std::vector<OpRecord> ops;
    for (uint32_t i = 0; i < servers.size(); ++i) ops.push_back({i, 0, Op::kRemoveVirtualServer, {}});
    (void)socket->Apply({ops, servers, reals});
  }

  uint32_t AddServer(const VirtualServerRecord& server) {
    servers.push_back(server);
    ops.push_back({static_cast<uint32_t>(servers.size() - 1), 0, Op::kAddVirtualServer, {}});
    return ops.back().virtual_server;
  }

  void AddReal(uint32_t server, const RealServerRecord& real) {
    reals.push_back(real);
    ops.push_back({server, static_cast<uint32_t>(reals.size() - 1), Op::kAddRealServer, {}});
  }

  BatchOutcome Apply() { return socket->Apply({ops, servers, reals}).value(); }

  std::optional<IpvsSocket> socket;
  std::vector<VirtualServerRecord> servers;
  std::vector<RealServerRecord> reals;
  std::vector<OpRecord> ops;
};

template <typename Record>
void ExpectSame(const Record& there, const Record& wanted) {
  EXPECT_EQ(memcmp(&there, &wanted, sizeof wanted), 0) << testing::PrintToString(there) << '\n'
                                                       << testing::PrintToString(wanted);
}

RealServerRecord SixBackend() {
  RealServerRecord real = TunnelBackend();
  real.forwarding = IP_VS_CONN_F_MASQ;
  real.tunnel_type = 0;
  real.tunnel_port = real.tunnel_flags = 0;
  return real;
}

TEST_F(IpvsKernel, ReadsBackWhatItWroteByOptionsAndByNetlink) {
  AddReal(AddServer(WebServer()), WebBackend());
  AddReal(AddServer(MarkServer()), TunnelBackend());
  AddReal(AddServer(SixServer()), SixBackend());
  const BatchOutcome outcome = Apply();
  EXPECT_EQ(outcome.applied, 6U);
  for (const Failure& failure : outcome.failures)
    ADD_FAILURE() << failure.index << ": errno " << failure.code;

  for (const uint8_t family : {AF_INET, AF_INET6}) {
    auto table = socket->Dump(family, true);
    auto again = socket->DumpByNetlink(family, true);
    ASSERT_TRUE(table.ok());
    ASSERT_TRUE(again.ok());
    const size_t count = family == AF_INET ? 2 : 1;
    ASSERT_EQ(table.value().virtual_servers.size(), count);
    ASSERT_EQ(again.value().virtual_servers.size(), count);
    ASSERT_EQ(table.value().real_servers.size(), count);
    ASSERT_EQ(again.value().real_servers.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ExpectSame(table.value().virtual_servers[i], again.value().virtual_servers[i]);
      ExpectSame(table.value().real_servers[i], again.value().real_servers[i]);
      const VirtualServerRecord& there = table.value().virtual_servers[i];
      VirtualServerRecord wanted = family == AF_INET6 ? SixServer()
                                   : there.mark != 0  ? MarkServer()
                                                      : WebServer();
      wanted.flags_mask = ~uint32_t{0};
      wanted.first_real = static_cast<uint32_t>(i);
      wanted.real_count = 1;
      ExpectSame(there, wanted);
      ExpectSame(table.value().real_servers[i], family == AF_INET6 ? SixBackend()
                                                : there.mark != 0  ? TunnelBackend()
                                                                   : WebBackend());
    }
  }
}

TEST_F(IpvsKernel, RefusalsNameTheirRecord) {
  const uint32_t web = AddServer(WebServer());
  AddReal(web, WebBackend());
  EXPECT_EQ(Apply().applied, 2U);
  VirtualServerRecord other = WebServer();
  other.port = 81;
  servers.push_back(other);
  ops = {{0, 0, Op::kAddVirtualServer, {}},    {0, 0, Op::kAddRealServer, {}},
         {1, 0, Op::kRemoveVirtualServer, {}}, {0, 0, Op::kSetRealServer, {}},
         {1, 0, Op::kSetRealServer, {}},       {0, 0, Op::kRemoveRealServer, {}},
         {0, 0, Op::kRemoveRealServer, {}},    {0, 0, Op::kZeroVirtualServer, {}}};
  const BatchOutcome outcome = Apply();
  EXPECT_EQ(outcome.applied, 3U);
  const std::pair<uint32_t, int> wanted[] = {{0, EEXIST}, {1, EEXIST}, {2, ESRCH}, {4, ESRCH}, {6, ENOENT}};
  ASSERT_EQ(outcome.failures.size(), std::size(wanted));
  for (size_t i = 0; i < std::size(wanted); ++i) {
    EXPECT_EQ(outcome.failures[i].index, wanted[i].first);
    EXPECT_EQ(outcome.failures[i].code, wanted[i].second);
  }
}

TEST_F(IpvsKernel, UnknownSchedulerIsNotFound) {
  VirtualServerRecord server = WebServer();
  SetScheduler(server, "nosuch");
  AddServer(server);
  const BatchOutcome outcome = Apply();
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].code, ENOENT);
}

TEST_F(IpvsKernel, FlagsOutsideTheMaskAreKept) {
  VirtualServerRecord server = WebServer();
  server.flags = IP_VS_SVC_F_PERSISTENT;
  server.timeout_seconds = 60;
  AddServer(server);
  EXPECT_EQ(Apply().applied, 1U);
  servers[0].flags = IP_VS_SVC_F_ONEPACKET;
  servers[0].flags_mask = IP_VS_SVC_F_ONEPACKET;
  ops = {{0, 0, Op::kSetVirtualServer, {}}};
  EXPECT_EQ(Apply().applied, 1U);
  auto table = socket->Dump(AF_INET, false);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table.value().virtual_servers.at(0).flags,
            uint32_t{IP_VS_SVC_F_PERSISTENT | IP_VS_SVC_F_ONEPACKET});
}

TEST_F(IpvsKernel, ManyServersInFewSends) {
  constexpr uint32_t kCount = 2000;
  for (uint32_t i = 0; i < kCount; ++i) {
    VirtualServerRecord server = WebServer();
    server.port = static_cast<uint16_t>(i + 1);
    const uint32_t index = AddServer(server);
    for (uint8_t last = 3; last > 0; --last) {
      RealServerRecord real = WebBackend();
      real.address[3] = last;
      AddReal(index, real);
    }
  }
  EXPECT_EQ(Apply().applied, 4 * kCount);
  auto info = socket->GetInfo();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info.value().ipv4_virtual_servers, kCount);
  auto table = socket->Dump(AF_INET, false);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table.value().virtual_servers.size(), kCount);
  ASSERT_EQ(table.value().real_servers.size(), 3 * kCount);
  for (size_t i = 0; i < table.value().real_servers.size(); ++i)
    ASSERT_EQ(table.value().real_servers[i].address[3], i % 3 + 1);
}

TEST_F(IpvsKernel, TimeoutsAreSetAndZeroKeeps) {
  auto before = socket->GetTimeouts();
  ASSERT_TRUE(before.ok());
  EXPECT_TRUE(socket->SetTimeouts({1000, 0, 0}).ok());
  auto after = socket->GetTimeouts();
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after.value().tcp_seconds, 1000U);
  EXPECT_EQ(after.value().udp_seconds, before.value().udp_seconds);
  EXPECT_TRUE(socket->SetTimeouts(before.value()).ok());
}

}  // namespace
}  // namespace viaduct::ipvs
