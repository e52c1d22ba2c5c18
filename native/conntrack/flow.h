#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>

namespace viaduct::conntrack {

struct Endpoint {
  uint8_t address[16];  ///< network order; IPv4 fills the first four
  uint16_t port;        ///< host order
};

/// What the client sent: it is the flow's name.
struct Tuple {
  Endpoint source;
  Endpoint destination;
  uint8_t protocol;
  /// Of CTA_TUPLE_ZONE: a zone of this direction only.
  std::optional<uint16_t> zone;
};

/// One entry of the kernel's table, as far as we look at it. Flows of protocols without ports have zeroes
/// there.
struct Flow {
  uint8_t family;
  Tuple original;
  /// Who answers: the backend of a translated flow, the frontend itself of one that is not translated.
  Endpoint reply_source;
  /// Tells the entry from a later one of the same tuple; as the kernel sent it (network order).
  std::optional<uint32_t> id_be;
  /// Of CTA_ZONE: a zone of both directions.
  std::optional<uint16_t> zone;
};

/// Whether the flows of the protocol have ports, and so may belong to a frontend.
inline bool HasPorts(uint8_t protocol) {
  return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

}  // namespace viaduct::conntrack
