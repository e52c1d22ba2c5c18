#pragma once

#include <cstdint>
#include <span>

// Packed records of the relay's services and listeners. Conventions: ipvs/record.h.

namespace viaduct::relay {

/// The request of an OpRecord.
enum class Op : uint8_t {
  kSetService = 1,
  kRemoveService = 2,
  kSetListener = 3,
  kRemoveListener = 4,
};

/// The treatment of a new connection or flow (RelayVerdict of src/kernel/relay/relay.ts).
enum class Verdict : uint8_t {
  kCluster = 1,
  kLocal = 2,
  kRefuse = 3,
  kDrop = 4,
};

struct EndpointRecord {
  uint8_t address[16];
  uint16_t port;
  uint8_t family;  ///< AF_INET or AF_INET6
  uint8_t reserved;
};

struct NetworkRecord {
  uint8_t address[16];
  uint8_t family;  ///< AF_INET or AF_INET6
  uint8_t prefix_length;
  uint8_t reserved[2];
};

/// An interface of the node's own pods: an exact name, or a prefix that ends in `+`.
struct InterfaceRecord {
  char name[16];  ///< NUL padded
};

/// A service. Its cluster endpoints, its local endpoints and the endpoints of its flows are consecutive in
/// Batch::endpoints. A removal reads only `id`.
struct ServiceRecord {
  uint32_t id;
  uint32_t affinity_seconds;  ///< 0: no affinity
  uint32_t first_endpoint;
  uint32_t cluster_count;
  uint32_t local_count;
  uint32_t flow_count;
  uint32_t first_range;  ///< of Batch::ranges
  uint32_t range_count;
};

/// A listener. The address 0.0.0.0 or :: stands for all addresses of node ports (SettingsRecords). A removal
/// reads only address, port, family and protocol.
struct ListenerRecord {
  uint8_t address[16];
  uint32_t service;
  uint16_t port;
  uint8_t family;    ///< AF_INET or AF_INET6
  uint8_t protocol;  ///< IPPROTO_TCP or IPPROTO_UDP
  Verdict near;
  Verdict far;
  uint8_t has_source_ranges;
  uint8_t reserved;
};

/// One operation of a batch: an index into Batch::services or Batch::listeners.
struct OpRecord {
  uint32_t object;
  Op op;
  uint8_t reserved[3];
};

/// Totals since the relay was opened, and current numbers.
struct CountersRecord {
  uint64_t listeners;
  uint64_t connections;
  uint64_t flows;
  uint64_t accepted_connections;
  uint64_t failed_connections;
  uint64_t refused_connections;
  uint64_t shed_connections;
  uint64_t started_flows;
  uint64_t evicted_flows;
  uint64_t spent_hops;
  uint64_t received_bytes;
  uint64_t sent_bytes;
};

/// A TCP connection or UDP flow of the relay. All three addresses have the same family.
struct FlowRecord {
  uint8_t client[16];
  uint8_t frontend[16];
  uint8_t endpoint[16];
  uint16_t client_port;
  uint16_t frontend_port;
  uint16_t endpoint_port;
  uint8_t family;        ///< AF_INET or AF_INET6
  uint8_t protocol;      ///< IPPROTO_TCP or IPPROTO_UDP
  uint8_t is_connected;  ///< 0: the endpoint has not accepted the connection yet
  uint8_t reserved[3];
};

/// Operations in order, without rollback. NB: the caller checks indices, families, protocols and verdicts.
struct Batch {
  std::span<const OpRecord> ops;
  std::span<const ServiceRecord> services;
  std::span<const ListenerRecord> listeners;
  std::span<const EndpointRecord> endpoints;
  std::span<const NetworkRecord> ranges;
};

constexpr bool IsServiceOp(Op op) { return op == Op::kSetService || op == Op::kRemoveService; }

}  // namespace viaduct::relay
