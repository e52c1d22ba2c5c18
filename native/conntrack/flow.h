#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>

namespace viaduct::conntrack {

struct Endpoint {
  uint8_t address[16];  ///< network order; IPv4 fills the first four
  uint16_t port;        ///< host order
};

/// The original direction, the flow's identity.
struct Tuple {
  Endpoint source;
  Endpoint destination;
  uint8_t protocol;
  /// CTA_TUPLE_ZONE: a zone of this direction only.
  std::optional<uint16_t> zone;
};

/// The used fields of one entry of the kernel's table. Ports of protocols without ports are 0.
struct Flow {
  uint8_t family;
  Tuple original;
  /// Source of the replies: the backend of a translated flow, the frontend of a flow without translation.
  Endpoint reply_source;
  /// Distinguishes the entry from a later one with the same tuple; in network order, as received.
  std::optional<uint32_t> id_be;
  /// CTA_ZONE: a zone of both directions.
  std::optional<uint16_t> zone;
  /// CTA_TIMEOUT: the entry ends after so many seconds without a packet.
  uint32_t timeout_seconds = 0;
  /// enum tcp_conntrack of linux/netfilter/nf_conntrack_tcp.h; 0: none, or not TCP.
  uint8_t tcp_state = 0;
};

/// Whether the flows of the protocol have ports, and so may belong to a frontend.
inline bool HasPorts(uint8_t protocol) {
  return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

}  // namespace viaduct::conntrack
