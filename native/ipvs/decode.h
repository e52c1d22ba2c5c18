#pragma once

#include <linux/ip_vs.h>

#include <cstdint>
#include <optional>
#include <span>

#include "ipvs/ipvs_socket.h"
#include "ipvs/record.h"

// Kernel answers to records. Netlink functions take the payload after nlmsghdr; nothing means that it is
// malformed, breaks the policy, or lacks what identifies the object.

namespace viaduct::ipvs {

/// A virtual server of a dump and how many real servers the kernel says it has (socket options only).
struct ServiceEntry {
  VirtualServerRecord record{};
  CountersRecord counters{};
  uint32_t real_count = 0;
};

struct RealEntry {
  RealServerRecord record{};
  CountersRecord counters{};
};

std::optional<uint16_t> DecodeFamilyId(std::span<const uint8_t> payload);
std::optional<Timeouts> DecodeTimeouts(std::span<const uint8_t> payload);
std::optional<ServiceEntry> DecodeService(std::span<const uint8_t> payload);
/// `service_family`: a kernel that sends no ADDR_FAMILY means this one.
std::optional<RealEntry> DecodeDestination(std::span<const uint8_t> payload, uint8_t service_family);

/// An entry of IP_VS_SO_GET_SERVICES; nothing: the kernel left it unused.
std::optional<ServiceEntry> DecodeServiceEntry(const ip_vs_service_entry& entry);
/// A used entry of IP_VS_SO_GET_DESTS, into a zeroed `result`.
void DecodeDestinationEntry(const ip_vs_dest_entry& entry, RealServerRecord& record);
void DecodeDestinationCounters(const ip_vs_dest_entry& entry, CountersRecord& counters);

}  // namespace viaduct::ipvs
