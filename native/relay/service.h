#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <vector>

#include "relay/affinity.h"
#include "relay/network_set.h"
#include "relay/record.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

struct UdpFlow;

/// The configuration of a service.
struct ServiceSettings {
  std::chrono::seconds affinity{0};  ///< 0: none
  std::vector<SocketAddress> cluster_endpoints;
  std::vector<SocketAddress> local_endpoints;
  std::vector<SocketAddress> flow_endpoints;  ///< that keep their UDP flows
  NetworkSet source_ranges;
};

/// The endpoints of a service and the state of its choice. Only the thread of its worker uses it.
class Service {
 public:
  explicit Service(Budget& affinity_records) : affinity_(affinity_records) {}

  void Set(ServiceSettings settings);
  bool HasSource(const IpKey& client) const { return settings_.source_ranges.Contains(client); }
  const std::vector<SocketAddress>& flow_endpoints() const { return settings_.flow_endpoints; }
  /// Endpoints for this verdict; empty for kRefuse and kDrop.
  const std::vector<SocketAddress>& EndpointsOf(Verdict verdict) const;
  /// The endpoint of a new connection or flow: that of the client's affinity, or the next one. The verdict
  /// must have endpoints.
  SocketAddress Choose(Verdict verdict, const IpKey& client, Clock::time_point now);
  /// The endpoint after a failed one. The client's affinity moves to it.
  SocketAddress ChooseNext(Verdict verdict, const IpKey& client, Clock::time_point now);
  /// The endpoint of the client has failed.
  void ForgetClient(const IpKey& client) { affinity_.Remove(client); }

  uint32_t descriptors = 0;     ///< held by connections and flows
  std::list<UdpFlow*> flows{};  ///< the last used one last

 private:
  static const std::vector<SocketAddress> kNoEndpoints;

  ServiceSettings settings_;
  Affinity affinity_;
  size_t next_cluster_ = 0;
  size_t next_local_ = 0;
};

}  // namespace viaduct::relay
