#pragma once

#include <linux/ip_vs.h>

#include <cstdint>
#include <optional>
#include <span>

#include "ipvs/ipvs_socket.h"
#include "ipvs/record.h"

// Decodes replies of the kernel into records. The netlink functions take the payload after nlmsghdr. Nothing:
// it is malformed, breaks the policy, or lacks the object's identity.

namespace viaduct::ipvs {

/// A virtual server of a dump and the kernel's number of its real servers (socket options only).
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
/// `service_family`: the family if the kernel sends no ADDR_FAMILY.
std::optional<RealEntry> DecodeDestination(std::span<const uint8_t> payload, uint8_t service_family);

/// An entry of IP_VS_SO_GET_SERVICES; nothing: an unused entry.
std::optional<ServiceEntry> DecodeServiceEntry(const ip_vs_service_entry& entry);
/// A used entry of IP_VS_SO_GET_DESTS, into a zeroed `result`.
void DecodeDestinationEntry(const ip_vs_dest_entry& entry, RealServerRecord& record);
void DecodeDestinationCounters(const ip_vs_dest_entry& entry, CountersRecord& counters);

}  // namespace viaduct::ipvs
