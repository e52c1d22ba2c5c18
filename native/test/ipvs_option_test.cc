#include <gtest/gtest.h>
#include <netinet/in.h>

#include "ipvs/option_reader.h"
#include "ipvs_records.h"
#include "scripted_kernel.h"

namespace viaduct::ipvs {
namespace {

/// getsockopt() on one service with the real servers `dests`, with the kernel's checks of the length.
class OptionTable {
 public:
  explicit OptionTable(ScriptedKernel& kernel) {
    kernel.on_option = [this](int name, void* value, socklen_t length) { return Get(name, value, length); };
  }

  int Get(int name, void* value, socklen_t length) {
    ++calls;
    if (error != 0) return error;
    if (name == IP_VS_SO_GET_INFO) {
      const ip_vs_getinfo info{0x010201, 4096, claimed_services.value_or(services.size())};
      memcpy(value, &info, sizeof info);
      return 0;
    }
    if (name == IP_VS_SO_GET_SERVICES)
      return Fill(services, value, length, offsetof(ip_vs_get_services, entrytable),
                  offsetof(ip_vs_get_services, num_services));
    ip_vs_get_dests query{};
    memcpy(&query, value, offsetof(ip_vs_get_dests, entrytable));
    queried_address = query.addr;
    queried_port = query.port;
    return Fill(dests, value, length, offsetof(ip_vs_get_dests, entrytable),
                offsetof(ip_vs_get_dests, num_dests));
  }

  template <typename Entry>
  static int Fill(const std::vector<Entry>& table, void* value, socklen_t length, size_t header,
                  size_t count_at) {
    auto* bytes = static_cast<uint8_t*>(value);
    uint32_t capacity = 0;
    memcpy(&capacity, bytes + count_at, sizeof capacity);
    if (length != header + capacity * sizeof(Entry)) return EINVAL;
    const size_t count = std::min<size_t>(capacity, table.size());
    if (count > 0) memcpy(bytes + header, table.data(), count * sizeof(Entry));
    return 0;
  }

  std::vector<ip_vs_service_entry> services;
  std::vector<ip_vs_dest_entry> dests;
  std::optional<unsigned> claimed_services;
  uint32_t queried_address = 0;
  uint16_t queried_port = 0;
  int error = 0;
  int calls = 0;
};

ip_vs_service_entry Service(uint16_t port, unsigned num_dests = 0) {
  ip_vs_service_entry entry{};
  entry.protocol = IPPROTO_TCP;
  entry.addr = htobe32(0x0a60000a);
  entry.port = htobe16(port);
  strcpy(entry.sched_name, "wrr");
  entry.flags = IP_VS_SVC_F_HASHED | IP_VS_SVC_F_PERSISTENT;
  entry.timeout = 60;
  entry.netmask = htobe32(0xffffff00);
  entry.num_dests = num_dests;
  entry.stats.conns = 5;
  entry.stats.inbytes = uint64_t{1} << 40;
  return entry;
}

ip_vs_dest_entry Dest(uint8_t last_byte) {
  ip_vs_dest_entry entry{};
  entry.addr = htobe32(0x0af40100 + last_byte);
  entry.port = htobe16(8080);
  entry.conn_flags = 0x100 | IP_VS_CONN_F_DROUTE;
  entry.weight = 3;
  entry.activeconns = 7;
  return entry;
}

class OptionReaderTest : public testing::Test {
 protected:
  ScriptedKernel kernel;
  OptionTable table{kernel};
  OptionReader reader = std::move(OptionReader::Open(kernel).value());
};

TEST_F(OptionReaderTest, ReadsServices) {
  table.services = {Service(80, 2), Service(443)};
  auto services = reader.ReadServices();
  ASSERT_TRUE(services.ok());
  ASSERT_EQ(services.value().size(), 2U);
  const ServiceEntry& entry = services.value()[0];
  EXPECT_EQ(entry.record.port, 80);
  EXPECT_STREQ(entry.record.scheduler, "wrr");
  EXPECT_EQ(entry.record.flags, uint32_t{IP_VS_SVC_F_PERSISTENT});
  EXPECT_EQ(entry.record.netmask_length, 24);
  EXPECT_EQ(entry.real_count, 2U);
  EXPECT_EQ(entry.counters.connections, 5U);
  EXPECT_EQ(entry.counters.in_bytes, uint64_t{1} << 40);
}

TEST_F(OptionReaderTest, AnEmptyTableIsNotAnError) {
  auto services = reader.ReadServices();
  ASSERT_TRUE(services.ok());
  EXPECT_TRUE(services.value().empty());
}

TEST_F(OptionReaderTest, MarkServiceHasNoAddress) {
  table.services = {Service(80)};
  table.services[0].fwmark = 9;
  auto services = reader.ReadServices();
  ASSERT_TRUE(services.ok());
  EXPECT_EQ(services.value()[0].record.mark, 9U);
  EXPECT_EQ(services.value()[0].record.port, 0);
  EXPECT_EQ(services.value()[0].record.protocol, 0);
}

TEST_F(OptionReaderTest, TableThatGrewIsReadAgain) {
  table.claimed_services = 1;
  for (int i = 0; i < 1000; ++i) table.services.push_back(Service(static_cast<uint16_t>(i + 1)));
  auto services = reader.ReadServices();
  ASSERT_TRUE(services.ok());
  EXPECT_EQ(services.value().size(), 1000U);
}

TEST_F(OptionReaderTest, ReadsRealServersByKey) {
  table.dests = {Dest(2), Dest(1)};  // the kernel names the newest first
  ServiceEntry service{WebServer(), {}, 2};
  std::vector<RealEntry> reals;
  ASSERT_TRUE(reader.ReadRealServers(service, true, reals).ok());
  ASSERT_EQ(reals.size(), 2U);
  EXPECT_EQ(reals[1].record.address[3], 2);
  EXPECT_EQ(reals[1].record.port, 8080);
  EXPECT_EQ(reals[1].record.forwarding, IP_VS_CONN_F_DROUTE);
  EXPECT_EQ(reals[1].record.weight, 3);
  EXPECT_EQ(reals[1].counters.active_connections, 7U);
  EXPECT_EQ(table.queried_port, htobe16(80));
  EXPECT_EQ(table.queried_address, htobe32(0x0a60000a));
}

TEST_F(OptionReaderTest, FewerRealServersAfterMoreLeaveNothingBehind) {
  std::vector<RealEntry> reals;
  for (int i = 0; i < 100; ++i) table.dests.push_back(Dest(static_cast<uint8_t>(i + 1)));
  ASSERT_TRUE(reader.ReadRealServers({WebServer(), {}, 100}, true, reals).ok());
  EXPECT_EQ(reals.size(), 100U);
  table.dests.resize(1);
  ASSERT_TRUE(reader.ReadRealServers({WebServer(), {}, 1}, true, reals).ok());
  EXPECT_EQ(reals.size(), 1U);
}

TEST_F(OptionReaderTest, ServiceThatGrewIsReadAgain) {
  std::vector<RealEntry> reals;
  for (int i = 0; i < 200; ++i) table.dests.push_back(Dest(static_cast<uint8_t>(i + 1)));
  ASSERT_TRUE(reader.ReadRealServers({WebServer(), {}, 1}, true, reals).ok());
  EXPECT_EQ(reals.size(), 200U);
}

TEST_F(OptionReaderTest, ReturnsTheErrno) {
  table.error = ESRCH;
  std::vector<RealEntry> reals;
  const auto status = reader.ReadRealServers({WebServer(), {}, 1}, true, reals);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ESRCH);
  table.error = EPERM;
  EXPECT_EQ(reader.ReadServices().error().code, EPERM);
}

}  // namespace
}  // namespace viaduct::ipvs
