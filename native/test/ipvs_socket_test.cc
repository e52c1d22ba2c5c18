#include "ipvs/ipvs_socket.h"

#include <gtest/gtest.h>
#include <linux/genetlink.h>
#include <netinet/in.h>

#include <linux/netfilter_ipv4/ip_tables.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/attribute_reader.h"
#include "core/message_builder.h"
#include "core/message_reader.h"
#include "hex.h"
#include "ipvs_records.h"
#include "scripted_kernel.h"

namespace viaduct::ipvs {
namespace {

/// The generic netlink side of a kernel with an IPVS module that can be loaded and unloaded.
class IpvsSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    kernel.on_send = [this](int fd, const Bytes& sent) {
      MessageReader reader(sent);
      while (const auto message = reader.Next()) Answer(fd, *message);
      return 0;
    };
    kernel.on_option = [this](int name, void* value, socklen_t) { return Option(name, value); };
    socket.emplace(std::move(IpvsSocket::Open(kernel).value()));
  }

  void Answer(int fd, const Message& message) {
    const uint32_t sequence = message.header.nlmsg_seq;
    const auto command = ReadAs<genlmsghdr>(message.payload).cmd;
    if (message.header.nlmsg_type == GENL_ID_CTRL) {
      ++lookups;
      if (family_id == 0) return Push(fd, MakeError(sequence, ENOENT));
      Bytes reply = {CTRL_CMD_NEWFAMILY, 2, 0, 0, 6, 0, CTRL_ATTR_FAMILY_ID, 0, 0, 0, 0, 0};
      memcpy(reply.data() + 8, &family_id, sizeof family_id);
      Push(fd, MakeMessage(GENL_ID_CTRL, 0, sequence, reply));
      return Push(fd, MakeError(sequence, 0));
    }
    if (message.header.nlmsg_type != family_id) return Push(fd, MakeError(sequence, ENOENT));
    commands.push_back(command);
    if ((message.header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) return Dump(fd, sequence, command);
    if (command_error != 0) return Push(fd, MakeError(sequence, command_error));
    if (command == IPVS_CMD_GET_SERVICE && !services.empty())
      Push(fd, MakeMessage(family_id, 0, sequence, services[0]));
    if (command == IPVS_CMD_GET_CONFIG)
      Push(fd, MakeMessage(family_id, 0, sequence, {IPVS_CMD_SET_CONFIG, 1, 0, 0, 8, 0, 4, 0, 99, 0, 0, 0}));
    if ((message.header.nlmsg_flags & NLM_F_ACK) != 0) Push(fd, MakeError(sequence, 0));
  }

  void Dump(int fd, uint32_t sequence, uint8_t command) {
    const auto& replies = command == IPVS_CMD_GET_SERVICE ? services : reals;
    if (std::exchange(is_interrupted[command], false)) {
      Push(fd, MakeMessage(family_id, NLM_F_MULTI | NLM_F_DUMP_INTR, sequence, {1, 2}));
      return Push(fd, MakeDone(sequence));
    }
    for (const Bytes& reply : replies) Push(fd, MakeMessage(family_id, NLM_F_MULTI, sequence, reply));
    Push(fd, MakeDone(sequence));
  }

  int Option(int name, void* value) {
    if (option_error != 0) return option_error;
    auto* bytes = static_cast<uint8_t*>(value);
    if (name == IP_VS_SO_GET_INFO) {
      const ip_vs_getinfo info{0x010201, 4096, static_cast<unsigned>(option_services.size())};
      memcpy(value, &info, sizeof info);
    } else if (name == IP_VS_SO_GET_SERVICES && !option_services.empty()) {
      memcpy(bytes + offsetof(ip_vs_get_services, entrytable), option_services.data(),
             option_services.size() * sizeof(ip_vs_service_entry));
    } else if (name == IP_VS_SO_GET_SERVICE) {
      return FindService(static_cast<ip_vs_service_entry*>(value));
    } else if (name == IP_VS_SO_GET_DESTS) {
      ip_vs_get_dests query{};
      memcpy(&query, value, offsetof(ip_vs_get_dests, entrytable));
      if (query.port == htobe16(vanished_port)) return ESRCH;
      if (!option_dests.empty())
        memcpy(bytes + offsetof(ip_vs_get_dests, entrytable), option_dests.data(),
               option_dests.size() * sizeof(ip_vs_dest_entry));
    }
    return 0;
  }

  int FindService(ip_vs_service_entry* wanted) {
    for (const auto& service : option_services) {
      if (service.port != wanted->port || service.fwmark != wanted->fwmark) continue;
      *wanted = service;
      return 0;
    }
    return ESRCH;
  }

  void Push(int fd, Bytes bytes) { kernel.queue(fd).push_back({std::move(bytes)}); }

  void AddService(uint16_t port, unsigned num_dests) {
    ip_vs_service_entry entry{};
    entry.protocol = IPPROTO_TCP;
    entry.addr = htobe32(0x0a60000a);
    entry.port = htobe16(port);
    entry.num_dests = num_dests;
    option_services.push_back(entry);
  }

  void AddDest(uint8_t last_byte, uint16_t port, unsigned flags = 0) {
    ip_vs_dest_entry entry{};
    entry.addr = htobe32(0x0af40100 + last_byte);
    entry.port = htobe16(port);
    entry.conn_flags = flags;
    option_dests.push_back(entry);
  }

  Result<BatchOutcome> AddTwoServers() {
    const VirtualServerRecord servers[] = {WebServer(), SixServer()};
    const OpRecord ops[] = {{0, 0, Op::kAddVirtualServer, {}}, {1, 0, Op::kAddVirtualServer, {}}};
    return socket->Apply({ops, servers, {}});
  }

  ScriptedKernel kernel;
  std::optional<IpvsSocket> socket;
  uint16_t family_id = 0x1c;
  int lookups = 0;
  int command_error = 0;
  int option_error = 0;
  uint16_t vanished_port = 0;
  std::map<uint8_t, bool> is_interrupted;  ///< by command: its next dump, which starts with a malformed entry
  std::vector<uint8_t> commands;
  std::vector<Bytes> services;
  std::vector<Bytes> reals;
  std::vector<ip_vs_service_entry> option_services;
  std::vector<ip_vs_dest_entry> option_dests;
};

/// DEST with ADDR 10.244.1.`last`, PORT 8080, FWD_METHOD.
Bytes NetlinkReal(uint8_t last, uint8_t method) {
  return {IPVS_CMD_NEW_DEST,
          1,
          0,
          0,
          28,
          0,
          2,
          0,
          8,
          0,
          1,
          0,
          10,
          244,
          1,
          last,
          6,
          0,
          2,
          0,
          0x1f,
          0x90,
          0,
          0,
          8,
          0,
          3,
          0,
          method,
          0,
          0,
          0};
}

/// SERVICE with AF and FWMARK.
Bytes NetlinkMark(uint8_t family, uint8_t mark) {
  return {IPVS_CMD_NEW_SERVICE, 1, 0, 0, 20, 0, 1, 0, 6, 0, 1, 0, family, 0, 0, 0, 8, 0, 5, 0, mark, 0, 0, 0};
}

TEST_F(IpvsSocketTest, DiscardsMalformedEntriesOfInterruptedDumps) {
  services = {NetlinkMark(AF_INET, 7)};
  reals = {NetlinkReal(5, IP_VS_CONN_F_MASQ)};
  is_interrupted = {{IPVS_CMD_GET_SERVICE, true}, {IPVS_CMD_GET_DEST, true}};
  auto table = socket->DumpByNetlink(AF_INET, false);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table.value().virtual_servers.size(), 1U);
  EXPECT_EQ(table.value().real_servers.size(), 1U);
}

TEST_F(IpvsSocketTest, LooksTheFamilyUpOnce) {
  ASSERT_TRUE(AddTwoServers().ok());
  auto outcome = AddTwoServers();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().applied, 2U);
  EXPECT_EQ(lookups, 1);
}

TEST_F(IpvsSocketTest, WithoutModuleNothingIsSentUntilItIsLoaded) {
  family_id = 0;
  auto outcome = AddTwoServers();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ENOENT);
  EXPECT_EQ(outcome.error().operation, "find generic netlink family IPVS");
  EXPECT_TRUE(commands.empty());
  family_id = 0x1d;
  outcome = AddTwoServers();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().applied, 2U);
}

TEST_F(IpvsSocketTest, BatchIsSentAgainWhenTheModuleWasReloaded) {
  ASSERT_TRUE(AddTwoServers().ok());
  family_id = 0x2a;
  auto outcome = AddTwoServers();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().applied, 2U);
  EXPECT_EQ(lookups, 2);
}

TEST_F(IpvsSocketTest, NotFoundIsAResultWhileTheFamilyExists) {
  command_error = ENOENT;
  auto outcome = AddTwoServers();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().failures.size(), 2U);
  EXPECT_EQ(outcome.value().failures[0].code, ENOENT);
  EXPECT_EQ(commands.size(), 2U) << "sent once";
}

TEST_F(IpvsSocketTest, AnUnloadedModuleFailsTheBatch) {
  ASSERT_TRUE(AddTwoServers().ok());
  family_id = 0;
  auto outcome = AddTwoServers();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ENOENT);
}

TEST_F(IpvsSocketTest, DumpsIpv4BySocketOptionsSorted) {
  AddService(80, 3);
  AddService(443, 3);
  AddDest(9, 1);
  AddDest(2, 9);
  AddDest(2, 8);
  auto table = socket->Dump(AF_INET, true);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table.value().virtual_servers.size(), 2U);
  EXPECT_EQ(table.value().virtual_servers[1].first_real, 3U);
  EXPECT_EQ(table.value().virtual_servers[1].real_count, 3U);
  const auto& real = table.value().real_servers;
  ASSERT_EQ(real.size(), 6U);
  EXPECT_EQ(real[0].address[3], 2);
  EXPECT_EQ(real[0].port, 8);
  EXPECT_EQ(real[1].port, 9);
  EXPECT_EQ(real[2].address[3], 9);
  EXPECT_EQ(table.value().virtual_server_counters.size(), 2U);
  EXPECT_EQ(table.value().real_server_counters.size(), 6U);
  EXPECT_TRUE(commands.empty()) << "no netlink dump was needed";
}

TEST_F(IpvsSocketTest, CountersOnlyWhenRequested) {
  AddService(80, 1);
  AddDest(1, 1);
  auto table = socket->Dump(AF_INET, false);
  ASSERT_TRUE(table.ok());
  EXPECT_TRUE(table.value().virtual_server_counters.empty());
  EXPECT_TRUE(table.value().real_server_counters.empty());
}

TEST_F(IpvsSocketTest, TunnelsAreReadByNetlink) {
  AddService(80, 1);
  AddDest(1, 8080, IP_VS_CONN_F_TUNNEL);
  reals = {NetlinkReal(1, IP_VS_CONN_F_TUNNEL)};
  auto table = socket->Dump(AF_INET, false);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(commands, std::vector<uint8_t>{IPVS_CMD_GET_DEST});
  EXPECT_EQ(table.value().real_servers.size(), 1U);
}

TEST_F(IpvsSocketTest, RealServersMissingInTheOptionsAreReadByNetlink) {
  AddService(80, 2);
  AddDest(1, 8080);
  reals = {NetlinkReal(2, 0), NetlinkReal(1, 0), NetlinkReal(2, 0)};
  auto table = socket->Dump(AF_INET, false);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table.value().real_servers.size(), 2U) << "a repeated entry counts once";
  EXPECT_EQ(table.value().real_servers[0].address[3], 1);
}

TEST_F(IpvsSocketTest, ServiceThatVanishesBetweenTheCallsIsLeftOut) {
  AddService(80, 0);
  AddService(81, 0);
  vanished_port = 80;
  auto table = socket->Dump(AF_INET, false);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table.value().virtual_servers.size(), 1U);
  EXPECT_EQ(table.value().virtual_servers[0].port, 81);
}

TEST_F(IpvsSocketTest, DumpsIpv6ByNetlinkWithoutTheOtherFamily) {
  services = {NetlinkMark(AF_INET, 1), NetlinkMark(AF_INET6, 2)};
  auto table = socket->Dump(AF_INET6, false);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table.value().virtual_servers.size(), 1U);
  EXPECT_EQ(table.value().virtual_servers[0].mark, 2U);
  EXPECT_EQ(commands, (std::vector<uint8_t>{IPVS_CMD_GET_SERVICE, IPVS_CMD_GET_DEST}));
}

TEST_F(IpvsSocketTest, ReadsSingleServersInOrderWithoutAbsentOnes) {
  AddService(80, 1);
  AddService(443, 1);
  AddDest(1, 8080);
  services = {NetlinkMark(AF_INET6, 2)};
  VirtualServerRecord keys[4] = {WebServer(), WebServer(), SixServer(), WebServer()};
  keys[0].port = 443;
  keys[1].port = 81;
  keys[3].port = 80;
  auto table = socket->Read(keys, true);
  ASSERT_TRUE(table.ok());
  const auto& servers = table.value().virtual_servers;
  ASSERT_EQ(servers.size(), 3U);
  EXPECT_EQ(servers[0].port, 443);
  EXPECT_EQ(servers[1].mark, 2U);
  EXPECT_EQ(servers[1].real_count, 0U);
  EXPECT_EQ(servers[2].port, 80);
  EXPECT_EQ(servers[2].first_real, 1U);
  EXPECT_EQ(table.value().real_server_counters.size(), 2U);
  EXPECT_EQ(commands, (std::vector<uint8_t>{IPVS_CMD_GET_SERVICE, IPVS_CMD_GET_DEST}));
}

TEST_F(IpvsSocketTest, AFailedReadOfSingleServersHasTheReason) {
  const VirtualServerRecord keys[] = {SixServer()};
  services = {Bytes{1, 1, 0, 0, 4, 0, 1, 0}};
  auto malformed = socket->Read(keys, false);
  ASSERT_FALSE(malformed.ok());
  EXPECT_EQ(malformed.error().code, EPROTO);
  command_error = EPERM;
  auto refused = socket->Read(keys, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EPERM);
  EXPECT_EQ(refused.error().operation, "read virtual servers");
}

TEST_F(IpvsSocketTest, MalformedEntryFailsTheDump) {
  services = {Bytes{1, 1, 0, 0, 4, 0, 1, 0}};
  auto table = socket->Dump(AF_INET6, false);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, EPROTO);
  EXPECT_EQ(table.error().operation, "dump virtual servers");
}

TEST_F(IpvsSocketTest, InfoAndTimeouts) {
  AddService(80, 0);
  auto info = socket->GetInfo();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info.value().ipv4_virtual_servers, 1U);
  EXPECT_EQ(info.value().version, 0x010201U);
  auto timeouts = socket->GetTimeouts();
  ASSERT_TRUE(timeouts.ok());
  EXPECT_EQ(timeouts.value().tcp_seconds, 99U);
  EXPECT_TRUE(socket->SetTimeouts({1, 2, 3}).ok());
  command_error = EPERM;
  const auto refused = socket->SetTimeouts({1, 2, 3});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EPERM);
  EXPECT_EQ(refused.error().operation, "set timeouts");
}

TEST_F(IpvsSocketTest, OptionsOfAnUnloadedModuleReportAMissingFamily) {
  ASSERT_TRUE(AddTwoServers().ok());
  option_error = ENOPROTOOPT;
  family_id = 0;
  auto table = socket->Dump(AF_INET, false);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ENOENT);
  EXPECT_EQ(table.error().operation, "find generic netlink family IPVS");
}

/// A kernel before Linux 5.16, which loads IP_VS only with the match `ipvs`.
class IpvsLoadTest : public IpvsSocketTest {
 protected:
  void SetUp() override {
    IpvsSocketTest::SetUp();
    family_id = 0;
    kernel.on_send = [this](int fd, const Bytes& sent) {
      const nlmsghdr header = HeadersOf(sent)[0];
      if (header.nlmsg_type == GENL_ID_CTRL) {
        Answer(fd, *MessageReader(sent).Next());
        return 0;
      }
      match_request = sent;
      if (has_compat) family_id = 0x1c;
      Push(fd, MakeError(header.nlmsg_seq, has_compat ? 0 : EINVAL));
      return 0;
    };
    kernel.on_option = [this](int name, void* value, socklen_t) {
      if (name != IPT_SO_GET_REVISION_MATCH || !has_legacy) return ENOPROTOOPT;
      EXPECT_STREQ(static_cast<xt_get_revision*>(value)->name, "ipvs");
      family_id = 0x1c;
      return 0;
    };
  }

  bool has_legacy = false;
  bool has_compat = false;
  Bytes match_request;
};

TEST_F(IpvsLoadTest, AsksLegacyXtablesForTheMatch) {
  has_legacy = true;
  EXPECT_TRUE(socket->Load().ok());
  EXPECT_TRUE(match_request.empty());
}

TEST_F(IpvsLoadTest, AsksTheCompatibilityLayerForTheMatch) {
  has_compat = true;
  EXPECT_TRUE(socket->Load().ok());
  EXPECT_TRUE(HasBytes(match_request, R"(
    30 00 00 00  00 0b 05 00  01 00 00 00  00 00 00 00   # NFNL_MSG_COMPAT_GET, REQUEST and ACK
    02 00 00 00                                          # nfgenmsg: AF_INET
    09 00 01 00  69 70 76 73  00 00 00 00                # NAME "ipvs"
    08 00 02 00  00 00 00 00                             # REV 0
    08 00 03 00  00 00 00 00                             # TYPE 0: a match
  )"));
}

TEST_F(IpvsLoadTest, AsksForNoMatchWhereTheFamilyIsThere) {
  family_id = 0x1c;
  EXPECT_TRUE(socket->Load().ok());
  EXPECT_EQ(lookups, 1);
  EXPECT_TRUE(match_request.empty());
}

TEST_F(IpvsLoadTest, ReportsAKernelThatHasNotLoadedIt) {
  const Status loaded = socket->Load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ENOENT);
  EXPECT_EQ(loaded.error().operation, "find generic netlink family IPVS");
}

}  // namespace
}  // namespace viaduct::ipvs
