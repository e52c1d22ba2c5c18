#include "relay/service.h"

#include <algorithm>
#include <utility>

namespace viaduct::relay {

const std::vector<SocketAddress> Service::kNoEndpoints;

void Service::Set(ServiceSettings settings) {
  if (settings.affinity.count() == 0) affinity_.Clear();
  settings_ = std::move(settings);
}

const std::vector<SocketAddress>& Service::EndpointsOf(Verdict verdict) const {
  if (verdict == Verdict::kCluster) return settings_.cluster_endpoints;
  if (verdict == Verdict::kLocal) return settings_.local_endpoints;
  return kNoEndpoints;
}

SocketAddress Service::Choose(Verdict verdict, const IpKey& client, Clock::time_point now) {
  if (settings_.affinity.count() > 0) {
    const SocketAddress* known = affinity_.Find(client, now, settings_.affinity);
    const auto& endpoints = EndpointsOf(verdict);
    if (known != nullptr && std::find(endpoints.begin(), endpoints.end(), *known) != endpoints.end())
      return *known;
  }
  return ChooseNext(verdict, client, now);
}

SocketAddress Service::ChooseNext(Verdict verdict, const IpKey& client, Clock::time_point now) {
  const auto& endpoints = EndpointsOf(verdict);
  size_t& next = verdict == Verdict::kLocal ? next_local_ : next_cluster_;
  const SocketAddress chosen = endpoints[next % endpoints.size()];
  next = (next + 1) % endpoints.size();
  if (settings_.affinity.count() > 0) affinity_.Put(client, chosen, now, settings_.affinity);
  return chosen;
}

}  // namespace viaduct::relay
