#pragma once

#include <cstdint>

// Packed records of frontends and their backends. Conventions: ipvs/record.h.

namespace viaduct::conntrack {

/// A destination of clients. Its backends are the BackendRecords with its set number. Without backends every
/// flow to it is stale.
struct FrontendRecord {
  uint8_t address[16];  ///< zero with is_node_port
  uint32_t backend_set;
  uint16_t port;
  uint8_t protocol;      ///< IPPROTO_TCP, _UDP or _SCTP
  uint8_t is_node_port;  ///< 1: the port on every address that serves node ports
};

struct BackendRecord {
  uint8_t address[16];
  uint32_t backend_set;
  uint16_t port;
  uint8_t reserved[2];
};

/// An address of this node that serves node ports.
struct AddressRecord {
  uint8_t address[16];
};

/// A flow to a frontend, of a list.
struct FlowRecord {
  uint8_t source[16];
  uint8_t destination[16];
  uint8_t reply_source[16];  ///< the backend; the destination of a flow without translation
  uint32_t timeout_seconds;  ///< the entry ends after so many seconds without a packet
  uint16_t source_port;
  uint16_t destination_port;
  uint16_t reply_source_port;
  uint8_t protocol;
  uint8_t tcp_state;  ///< enum tcp_conntrack of linux/netfilter/nf_conntrack_tcp.h; 0: none, or not TCP
};

/// The flows to a destination that have the same backend.
struct FlowCountRecord {
  uint8_t destination[16];
  uint8_t reply_source[16];  ///< the backend; the destination of flows without translation
  uint32_t active;           ///< of TCP those in state ESTABLISHED, of other protocols all
  uint32_t inactive;
  uint16_t destination_port;
  uint16_t reply_source_port;
  uint8_t protocol;
  uint8_t reserved[3];
};

}  // namespace viaduct::conntrack
