#include "ipvs/option_reader.h"

#include <endian.h>
#include <netinet/in.h>

#include <linux/netfilter_ipv4/ip_tables.h>

#include <cerrno>
#include <cstring>

namespace viaduct::ipvs {

namespace {

// Room for entries added between two calls. A full table is read again with twice the room.
constexpr uint32_t kServiceSlack = 256;
constexpr uint32_t kDestinationSlack = 16;
constexpr int kMaxAttempts = 8;

constexpr size_t kDestinationsHeader = offsetof(ip_vs_get_dests, entrytable);
constexpr size_t kServicesHeader = offsetof(ip_vs_get_services, entrytable);

template <typename Entry>
Entry EntryAt(const std::vector<uint8_t>& buffer, size_t header, uint32_t index) {
  Entry entry;
  memcpy(&entry, buffer.data() + header + index * sizeof(Entry), sizeof entry);
  return entry;
}

}  // namespace

Result<OptionReader> OptionReader::Open(SocketCalls& calls) {
  // A datagram socket: raw ones need CAP_NET_RAW.
  Fd fd(calls.Socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Error{errno, "open IPv4 socket", {}};
  return OptionReader(calls, std::move(fd));
}

Status OptionReader::Get(int name, std::span<uint8_t> value) {
  auto length = static_cast<socklen_t>(value.size());
  if (calls_->GetOption(fd_.get(), IPPROTO_IP, name, value.data(), &length) == 0) return Ok();
  return Error{errno, {}, {}};
}

// linux/netfilter_ipv4/ip_tables.h IPT_SO_GET_REVISION_MATCH: xt_find_revision() of net/netfilter/x_tables.c.
void OptionReader::RequestMatch() {
  xt_get_revision query{};
  strncpy(query.name, "ipvs", sizeof query.name - 1);
  socklen_t length = sizeof query;
  calls_->GetOption(fd_.get(), IPPROTO_IP, IPT_SO_GET_REVISION_MATCH, &query, &length);
}

Result<ip_vs_getinfo> OptionReader::ReadInfo() {
  ip_vs_getinfo info{};
  Status status = Get(IP_VS_SO_GET_INFO, {reinterpret_cast<uint8_t*>(&info), sizeof info});
  if (!status.ok()) return status.error();
  return info;
}

// ip_vs_ctl.c do_ip_vs_get_ctl(): the length must be exactly header + num_services entries, else EINVAL and a
// line in the kernel's log.
Result<std::vector<ServiceEntry>> OptionReader::ReadServices() {
  auto info = ReadInfo();
  if (!info.ok()) return info.error();
  uint32_t capacity = info.value().num_services + kServiceSlack;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt, capacity *= 2) {
    std::vector<uint8_t> buffer(kServicesHeader + size_t{capacity} * sizeof(ip_vs_service_entry));
    memcpy(buffer.data() + offsetof(ip_vs_get_services, num_services), &capacity, sizeof capacity);
    Status status = Get(IP_VS_SO_GET_SERVICES, buffer);
    if (!status.ok()) return status.error();
    std::vector<ServiceEntry> services;
    services.reserve(info.value().num_services);
    for (uint32_t i = 0; i < capacity; ++i) {
      auto service = DecodeServiceEntry(EntryAt<ip_vs_service_entry>(buffer, kServicesHeader, i));
      if (!service) return services;
      services.push_back(*service);
    }
  }
  return Error{EAGAIN, {}, "the table grew during each attempt to read it"};
}

// do_ip_vs_get_ctl() finds the service by the key in the entry and fills in the rest.
Result<ServiceEntry> OptionReader::ReadService(const VirtualServerRecord& key) {
  ip_vs_service_entry entry{};
  entry.protocol = key.protocol;
  memcpy(&entry.addr, key.address, sizeof entry.addr);
  entry.port = htobe16(key.port);
  entry.fwmark = key.mark;
  Status status = Get(IP_VS_SO_GET_SERVICE, {reinterpret_cast<uint8_t*>(&entry), sizeof entry});
  if (!status.ok()) return status.error();
  auto service = DecodeServiceEntry(entry);
  if (!service) return Error{EPROTO, {}, {}};
  return *service;
}

/// Number of filled entries. Real servers have unicast or local addresses, so 0.0.0.0 marks an unused entry.
uint32_t OptionReader::CountDestinations(uint32_t capacity) const {
  const uint8_t* entries = destinations_.data() + kDestinationsHeader;
  for (uint32_t used = 0; used < capacity; ++used) {
    __be32 address = 0;
    memcpy(&address, entries + used * sizeof(ip_vs_dest_entry) + offsetof(ip_vs_dest_entry, addr),
           sizeof address);
    if (address == 0) return used;
  }
  return capacity;
}

// __ip_vs_get_dest_entries() fills from the start and skips real servers of the other family.
Status OptionReader::ReadRealServers(const ServiceEntry& service, bool with_counters,
                                     std::vector<RealEntry>& reals) {
  uint32_t capacity = service.real_count + kDestinationSlack;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt, capacity *= 2) {
    const size_t size = kDestinationsHeader + size_t{capacity} * sizeof(ip_vs_dest_entry);
    if (destinations_.size() < size) destinations_.resize(size);
    ip_vs_get_dests header{};
    header.protocol = service.record.protocol;
    memcpy(&header.addr, service.record.address, sizeof header.addr);
    header.port = htobe16(service.record.port);
    header.fwmark = service.record.mark;
    header.num_dests = capacity;
    memcpy(destinations_.data(), &header, kDestinationsHeader);
    Status status = Get(IP_VS_SO_GET_DESTS, std::span(destinations_).first(size));
    if (!status.ok()) {
      destinations_.clear();  // zero for the next call
      return status;
    }
    reals.clear();
    const uint32_t used = CountDestinations(capacity);
    // ip_vs_add_dest() puts the newest first: the reverse order is nearly the order of Dump().
    for (uint32_t i = used; i-- > 0;) {
      const auto entry = EntryAt<ip_vs_dest_entry>(destinations_, kDestinationsHeader, i);
      RealEntry& real = reals.emplace_back();
      DecodeDestinationEntry(entry, real.record);
      if (with_counters) DecodeDestinationCounters(entry, real.counters);
    }
    memset(destinations_.data() + kDestinationsHeader, 0, used * sizeof(ip_vs_dest_entry));
    if (used < capacity) return Ok();
  }
  return Error{EAGAIN, {}, "the table grew during each attempt to read it"};
}

}  // namespace viaduct::ipvs
