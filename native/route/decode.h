#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "route/record.h"

// rtnetlink messages to records; they take the payload after nlmsghdr. Nothing: malformed, breaks the policy,
// or lacks what identifies the object.

namespace viaduct::route {

std::optional<RouteRecord> DecodeRoute(std::span<const uint8_t> payload);
std::optional<AddressRecord> DecodeAddress(std::span<const uint8_t> payload);
std::optional<LinkRecord> DecodeLink(std::span<const uint8_t> payload);
/// RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR, RTM_DELADDR; nothing also for every other type, and
/// for what a family tells of its part of an interface (AF_BRIDGE: its port).
std::optional<EventRecord> DecodeEvent(uint16_t type, std::span<const uint8_t> payload);

}  // namespace viaduct::route
