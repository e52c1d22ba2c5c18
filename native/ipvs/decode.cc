#include "ipvs/decode.h"

#include <netinet/in.h>

#include <bit>

#include "ipvs/policy.h"

namespace viaduct::ipvs {

namespace {

constexpr uint32_t kHashed = IP_VS_SVC_F_HASHED;  // the kernel's own flag

using CommandTable = AttributeTable<IPVS_CMD_ATTR_TIMEOUT_UDP>;
using ServiceTable = AttributeTable<IPVS_SVC_ATTR_STATS64>;
using DestinationTable = AttributeTable<IPVS_DEST_ATTR_TUN_FLAGS>;
using StatsTable = AttributeTable<IPVS_STATS_ATTR_OUTBYTES>;

bool IsFamily(uint16_t family) { return family == AF_INET || family == AF_INET6; }

size_t AddressSize(uint16_t family) { return family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr); }

/// The kernel sends 16 bytes for both families. IPv4 uses the first four.
bool CopyAddress(std::span<const uint8_t> value, uint16_t family, uint8_t (&address)[16]) {
  const size_t size = AddressSize(family);
  if (value.size() < size) return false;
  memcpy(address, value.data(), size);
  return true;
}

void CopyScheduler(std::string_view name, char (&scheduler)[16]) {
  name.copy(scheduler, sizeof scheduler - 1);
}

uint8_t MaskLength(uint32_t mask_be) { return static_cast<uint8_t>(std::popcount(mask_be)); }

template <typename Wide>
void FillCounters(const StatsTable& stats, CountersRecord& counters) {
  counters.connections = stats.Number<Wide>(IPVS_STATS_ATTR_CONNS);
  counters.in_packets = stats.Number<Wide>(IPVS_STATS_ATTR_INPKTS);
  counters.out_packets = stats.Number<Wide>(IPVS_STATS_ATTR_OUTPKTS);
  counters.in_bytes = stats.Number<uint64_t>(IPVS_STATS_ATTR_INBYTES);
  counters.out_bytes = stats.Number<uint64_t>(IPVS_STATS_ATTR_OUTBYTES);
}

/// STATS64 since Linux 4.1, STATS before.
bool DecodeCounters(std::span<const uint8_t> stats, std::span<const uint8_t> stats64,
                    CountersRecord& counters) {
  StatsTable table;
  if (!stats64.empty()) {
    if (!table.Parse(stats64, kStats64Policy)) return false;
    FillCounters<uint64_t>(table, counters);
    return true;
  }
  if (!table.Parse(stats, kStatsPolicy)) return false;
  FillCounters<uint32_t>(table, counters);
  return true;
}

/// Copies the key: AF and either FWMARK or PROTOCOL, ADDR, PORT.
bool DecodeServiceKey(const ServiceTable& service, VirtualServerRecord& record) {
  const auto family = service.Number<uint16_t>(IPVS_SVC_ATTR_AF);
  if (!IsFamily(family)) return false;
  record.family = static_cast<uint8_t>(family);
  record.mark = service.Number<uint32_t>(IPVS_SVC_ATTR_FWMARK);
  if (record.mark != 0) return true;
  if (!service.Has(IPVS_SVC_ATTR_PROTOCOL) || !service.Has(IPVS_SVC_ATTR_PORT)) return false;
  const auto protocol = service.Number<uint16_t>(IPVS_SVC_ATTR_PROTOCOL);
  if (protocol > UINT8_MAX) return false;
  record.protocol = static_cast<uint8_t>(protocol);
  record.port = service.Port(IPVS_SVC_ATTR_PORT);
  return CopyAddress(service.Bytes(IPVS_SVC_ATTR_ADDR), family, record.address);
}

bool DecodeServiceSettings(const ServiceTable& service, VirtualServerRecord& record) {
  CopyScheduler(service.Text(IPVS_SVC_ATTR_SCHED_NAME), record.scheduler);
  if (service.Has(IPVS_SVC_ATTR_FLAGS))
    record.flags = ReadAs<ip_vs_flags>(service.Bytes(IPVS_SVC_ATTR_FLAGS)).flags & ~kHashed;
  record.flags_mask = ~uint32_t{0};
  record.timeout_seconds = service.Number<uint32_t>(IPVS_SVC_ATTR_TIMEOUT);
  const auto netmask = service.Number<uint32_t>(IPVS_SVC_ATTR_NETMASK);
  if (record.family == AF_INET6 && netmask > 128) return false;
  record.netmask_length = record.family == AF_INET ? MaskLength(netmask) : static_cast<uint8_t>(netmask);
  return true;
}

bool DecodeDestinationSettings(const DestinationTable& destination, RealEntry& entry) {
  RealServerRecord& record = entry.record;
  record.forwarding =
      static_cast<uint8_t>(destination.Number<uint32_t>(IPVS_DEST_ATTR_FWD_METHOD) & IP_VS_CONN_F_FWD_MASK);
  record.weight = static_cast<int32_t>(destination.Number<uint32_t>(IPVS_DEST_ATTR_WEIGHT));
  record.upper_threshold = destination.Number<uint32_t>(IPVS_DEST_ATTR_U_THRESH);
  record.lower_threshold = destination.Number<uint32_t>(IPVS_DEST_ATTR_L_THRESH);
  record.tunnel_type = destination.Number<uint8_t>(IPVS_DEST_ATTR_TUN_TYPE);
  record.tunnel_port = destination.Port(IPVS_DEST_ATTR_TUN_PORT);
  record.tunnel_flags = destination.Number<uint16_t>(IPVS_DEST_ATTR_TUN_FLAGS);
  entry.counters.active_connections = destination.Number<uint32_t>(IPVS_DEST_ATTR_ACTIVE_CONNS);
  entry.counters.inactive_connections = destination.Number<uint32_t>(IPVS_DEST_ATTR_INACT_CONNS);
  entry.counters.persistent_connections = destination.Number<uint32_t>(IPVS_DEST_ATTR_PERSIST_CONNS);
  return DecodeCounters(destination.Bytes(IPVS_DEST_ATTR_STATS), destination.Bytes(IPVS_DEST_ATTR_STATS64),
                        entry.counters);
}

/// Attributes after genlmsghdr; false without a complete header.
template <typename Table>
bool ParseGeneric(std::span<const uint8_t> payload, const Policy& policy, Table& table) {
  return payload.size() >= GENL_HDRLEN && table.Parse(payload.subspan(GENL_HDRLEN), policy);
}

void CopyStats(const ip_vs_stats_user& stats, CountersRecord& counters) {
  counters.connections = stats.conns;
  counters.in_packets = stats.inpkts;
  counters.out_packets = stats.outpkts;
  counters.in_bytes = stats.inbytes;
  counters.out_bytes = stats.outbytes;
}

}  // namespace

std::optional<uint16_t> DecodeFamilyId(std::span<const uint8_t> payload) {
  AttributeTable<CTRL_ATTR_FAMILY_NAME> control;
  if (!ParseGeneric(payload, kControlPolicy, control)) return std::nullopt;
  const auto id = control.Number<uint16_t>(CTRL_ATTR_FAMILY_ID);
  return id == 0 ? std::nullopt : std::optional(id);
}

std::optional<Timeouts> DecodeTimeouts(std::span<const uint8_t> payload) {
  CommandTable command;
  if (!ParseGeneric(payload, kCommandPolicy, command)) return std::nullopt;
  return Timeouts{command.Number<uint32_t>(IPVS_CMD_ATTR_TIMEOUT_TCP),
                  command.Number<uint32_t>(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN),
                  command.Number<uint32_t>(IPVS_CMD_ATTR_TIMEOUT_UDP)};
}

std::optional<ServiceEntry> DecodeService(std::span<const uint8_t> payload) {
  CommandTable command;
  ServiceTable service;
  ServiceEntry entry;
  if (!ParseGeneric(payload, kCommandPolicy, command) || !command.Has(IPVS_CMD_ATTR_SERVICE) ||
      !service.Parse(command.Bytes(IPVS_CMD_ATTR_SERVICE), kServicePolicy) ||
      !DecodeServiceKey(service, entry.record) || !DecodeServiceSettings(service, entry.record) ||
      !DecodeCounters(service.Bytes(IPVS_SVC_ATTR_STATS), service.Bytes(IPVS_SVC_ATTR_STATS64),
                      entry.counters))
    return std::nullopt;
  return entry;
}

std::optional<RealEntry> DecodeDestination(std::span<const uint8_t> payload, uint8_t service_family) {
  CommandTable command;
  DestinationTable destination;
  if (!ParseGeneric(payload, kCommandPolicy, command) || !command.Has(IPVS_CMD_ATTR_DEST) ||
      !destination.Parse(command.Bytes(IPVS_CMD_ATTR_DEST), kDestinationPolicy))
    return std::nullopt;
  const auto family = destination.Number<uint16_t>(IPVS_DEST_ATTR_ADDR_FAMILY, service_family);
  RealEntry entry;
  if (!IsFamily(family) || !destination.Has(IPVS_DEST_ATTR_PORT) ||
      !CopyAddress(destination.Bytes(IPVS_DEST_ATTR_ADDR), family, entry.record.address) ||
      !DecodeDestinationSettings(destination, entry))
    return std::nullopt;
  entry.record.family = static_cast<uint8_t>(family);
  entry.record.port = destination.Port(IPVS_DEST_ATTR_PORT);
  return entry;
}

std::optional<ServiceEntry> DecodeServiceEntry(const ip_vs_service_entry& entry) {
  // The kernel does not write unused entries: they stay zero.
  if (entry.protocol == 0 && entry.fwmark == 0) return std::nullopt;
  ServiceEntry result;
  VirtualServerRecord& record = result.record;
  record.family = AF_INET;
  record.mark = entry.fwmark;
  if (record.mark == 0) {
    record.protocol = static_cast<uint8_t>(entry.protocol);
    memcpy(record.address, &entry.addr, sizeof entry.addr);
    record.port = be16toh(entry.port);
  }
  CopyScheduler({entry.sched_name, strnlen(entry.sched_name, sizeof entry.sched_name)}, record.scheduler);
  record.flags = entry.flags & ~kHashed;
  record.flags_mask = ~uint32_t{0};
  record.timeout_seconds = entry.timeout;
  record.netmask_length = MaskLength(entry.netmask);
  result.real_count = entry.num_dests;
  CopyStats(entry.stats, result.counters);
  return result;
}

void DecodeDestinationEntry(const ip_vs_dest_entry& entry, RealServerRecord& record) {
  record.family = AF_INET;
  memcpy(record.address, &entry.addr, sizeof entry.addr);
  record.port = be16toh(entry.port);
  record.forwarding = static_cast<uint8_t>(entry.conn_flags & IP_VS_CONN_F_FWD_MASK);
  record.weight = entry.weight;
  record.upper_threshold = entry.u_threshold;
  record.lower_threshold = entry.l_threshold;
}

void DecodeDestinationCounters(const ip_vs_dest_entry& entry, CountersRecord& counters) {
  counters.active_connections = entry.activeconns;
  counters.inactive_connections = entry.inactconns;
  counters.persistent_connections = entry.persistconns;
  CopyStats(entry.stats, counters);
}

}  // namespace viaduct::ipvs
