#pragma once

#include <cstddef>
#include <cstdint>

// Packed records of frontends and their backends; conventions as in ipvs/record.h.

namespace viaduct::conntrack {

/// What a client asks for. Its backends are those with its set number; none: no flow may go anywhere.
struct FrontendRecord {
  uint8_t address[16];  ///< all zero with is_node_port
  uint32_t backend_set;
  uint16_t port;
  uint8_t protocol;      ///< IPPROTO_TCP, _UDP or _SCTP
  uint8_t is_node_port;  ///< 1: this port at every address that serves node ports
};
static_assert(sizeof(FrontendRecord) == 24);
static_assert(offsetof(FrontendRecord, port) == 20);

struct BackendRecord {
  uint8_t address[16];
  uint32_t backend_set;
  uint16_t port;
  uint8_t reserved[2];
};
static_assert(sizeof(BackendRecord) == 24);

/// An address of this node that serves node ports.
struct AddressRecord {
  uint8_t address[16];
};
static_assert(sizeof(AddressRecord) == 16);

}  // namespace viaduct::conntrack
