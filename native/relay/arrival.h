#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "relay/socket_address.h"

namespace viaduct::relay {

/// A hop limit, or TTL. None: unknown.
using HopLimit = std::optional<uint8_t>;

/// How a packet of a client came.
struct Arrival {
  unsigned interface_index = 0;  ///< 0: unknown
  HopLimit hop_limit{};
  std::optional<IpKey> destination{};  ///< as the client sent it; none: unknown
};

/// Lets the kernel report how packets of a listening TCP socket, or of a UDP socket, come. False: it does not
/// report interfaces and destinations.
bool ReportArrivals(int fd, int family);
/// The arrival of the packet that completed an accepted connection of `family`.
Arrival ArrivalOfStream(int fd, int family);
/// The arrival of a received datagram.
Arrival ArrivalOf(const msghdr& datagram);

/// What came with this hop limit ends here, as at a router (RFC 1812, 5.3.1).
bool IsSpent(HopLimit arrived);
/// The hop limit of what the relay sends on. It is lower than the one that arrived, so that a circle of
/// several relays ends.
HopLimit NextHopLimit(HopLimit arrived);
/// Sets the hop limit of what the socket sends from now on. Unknown: the kernel's default.
void SetHopLimit(int fd, int family, HopLimit limit);

}  // namespace viaduct::relay
