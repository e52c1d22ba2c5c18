#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "route/record.h"

// Decodes rtnetlink messages into records, from the payload after nlmsghdr. Nothing: it is malformed, breaks
// the policy, or lacks the object's identity.

namespace viaduct::route {

std::optional<RouteRecord> DecodeRoute(std::span<const uint8_t> payload);
/// The addresses that a unicast route leads to by name, as host addresses with the interface: its next hops,
/// or its own destination if it is a host route without one. Empty: it has neither, or is of another type, or
/// the kernel cached it. A next hop of another family than the route's is left out: nearly all are
/// link-local.
std::optional<std::vector<AddressRecord>> DecodeNextHops(std::span<const uint8_t> payload);
std::optional<AddressRecord> DecodeAddress(std::span<const uint8_t> payload);
std::optional<LinkRecord> DecodeLink(std::span<const uint8_t> payload);
std::optional<RuleRecord> DecodeRule(std::span<const uint8_t> payload);
/// RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR, RTM_DELADDR; nothing for other types, and for a family's message
/// about its part of an interface (AF_BRIDGE: its port).
std::optional<EventRecord> DecodeEvent(uint16_t type, std::span<const uint8_t> payload);

}  // namespace viaduct::route
