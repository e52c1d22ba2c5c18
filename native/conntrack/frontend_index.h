#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "conntrack/flow.h"
#include "conntrack/frontend_key.h"
#include "conntrack/record.h"

namespace viaduct::conntrack {

/// Decides whether a flow is stale, in constant time for any number of frontends.
class FrontendIndex {
 public:
  /// The first of equal frontends wins.
  FrontendIndex(std::span<const FrontendRecord> frontends, std::span<const BackendRecord> backends,
                std::span<const AddressRecord> node_port_addresses);

  /// Whether the flow goes to a frontend and not to one of its backends. A frontend with an address takes
  /// precedence over a node port of the same number, which applies only to the node-port addresses.
  bool IsStale(const Flow& flow) const;
  /// Whether the flow goes to a frontend. Frontends take precedence as for IsStale().
  bool Serves(const Flow& flow) const;

 private:
  static uint64_t FrontendRest(uint8_t protocol, uint16_t port, bool is_node_port);
  static uint64_t BackendRest(uint32_t backend_set, uint16_t port);
  /// The number of the backend set; nothing: the flow belongs to no frontend.
  const uint32_t* FindBackendSet(const Tuple& tuple) const;

  std::unordered_map<FrontendKey, uint32_t, FrontendKeyHash> frontends_;
  std::unordered_set<FrontendKey, FrontendKeyHash> backends_;
  std::unordered_set<FrontendKey, FrontendKeyHash> node_port_addresses_;
};

}  // namespace viaduct::conntrack
