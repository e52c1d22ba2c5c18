#pragma once

#include <cstdint>

// Packed records that cross between TypeScript and C++. The record.h files are their only description:
// native/records.mjs derives the constants of TypeScript (src/kernel/*/layout.ts) and the addon's `layout`.
// Numbers are little endian, the byte order of all supported hosts. Addresses are 16 bytes in network order;
// IPv4 uses the first four. Unused and reserved bytes are zero.

namespace viaduct::ipvs {

/// The request of an OpRecord.
enum class Op : uint8_t {
  kAddVirtualServer = 1,
  kSetVirtualServer = 2,
  kRemoveVirtualServer = 3,
  kAddRealServer = 4,
  kSetRealServer = 5,
  kRemoveRealServer = 6,
  kZeroVirtualServer = 7,
};

/// Identity and settings of a virtual server; the same shape in a batch and in a dump.
struct VirtualServerRecord {
  uint8_t address[16];
  char scheduler[16];        ///< NUL padded; IP_VS_SCHEDNAME_MAXLEN
  uint32_t mark;             ///< not 0: a firewall-mark server, without address, port and protocol
  uint32_t flags;            ///< IP_VS_SVC_F_*, without HASHED
  uint32_t flags_mask;       ///< flag bits that a batch sets; ~0 in a dump
  uint32_t timeout_seconds;  ///< persistence time-out
  uint32_t first_real;       ///< dump: index of the first RealServerRecord; 0 in a batch
  uint32_t real_count;       ///< dump: number of RealServerRecords; 0 in a batch
  uint16_t port;
  uint8_t family;          ///< AF_INET or AF_INET6
  uint8_t protocol;        ///< IPPROTO_TCP, _UDP, _SCTP
  uint8_t netmask_length;  ///< persistence granularity as prefix length: 0..32 or 0..128
  uint8_t reserved[3];
};

/// Identity and settings of a real server; the same shape in a batch and in a dump.
struct RealServerRecord {
  uint8_t address[16];
  int32_t weight;
  uint32_t upper_threshold;
  uint32_t lower_threshold;
  uint16_t port;
  uint16_t tunnel_port;
  uint16_t tunnel_flags;
  uint8_t family;
  uint8_t forwarding;   ///< IP_VS_CONN_F_MASQ 0, LOCALNODE 1, TUNNEL 2, DROUTE 3
  uint8_t tunnel_type;  ///< IP_VS_CONN_F_TUNNEL_TYPE_*: IPIP 0, GUE 1, GRE 2
  uint8_t reserved[3];
};

/// One operation of a batch: indices into the batch's two tables. `real_server` is 0 for operations on
/// virtual servers.
struct OpRecord {
  uint32_t virtual_server;
  uint32_t real_server;
  Op op;
  uint8_t reserved[3];
};

/// Counters of a virtual or a real server, parallel to the config records of a dump (same index).
struct CountersRecord {
  uint64_t connections;
  uint64_t in_packets;
  uint64_t out_packets;
  uint64_t in_bytes;
  uint64_t out_bytes;
  uint32_t active_connections;  ///< real servers only, like the next two
  uint32_t inactive_connections;
  uint32_t persistent_connections;
  uint32_t reserved;
};

}  // namespace viaduct::ipvs
