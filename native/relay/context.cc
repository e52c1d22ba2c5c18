#include "relay/context.h"

#include <net/if.h>

#include <algorithm>
#include <string_view>

namespace viaduct::relay {

namespace {

bool Matches(const std::string& pattern, std::string_view name) {
  if (pattern.ends_with('+'))
    return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return name == pattern;
}

/// Index of `lo` in each network namespace (LOOPBACK_IFINDEX of the kernel).
constexpr unsigned kLoopback = 1;

/// Asks the kernel for the name: an index may be that of a renamed interface.
bool IsNearInterface(const Settings& settings, unsigned index) {
  char name[IF_NAMESIZE] = {};
  // Only this machine sends by it: from any of its addresses, a VIP included.
  if (index == kLoopback) return true;
  if (index == 0 || settings.near_interfaces.empty() || if_indextoname(index, name) == nullptr) return false;
  return std::any_of(settings.near_interfaces.begin(), settings.near_interfaces.end(),
                     [&](const std::string& pattern) { return Matches(pattern, name); });
}

}  // namespace

bool ServesAt(const Settings& settings, const Listener& listener, const IpKey& address) {
  return !listener.address.IsWildcard() || settings.node_port_addresses.Contains(address);
}

Verdict Admit(const Settings& settings, const Listener& listener, const IpKey& client,
              unsigned interface_index) {
  if (listener.has_source_ranges && !listener.service->HasSource(client)) return Verdict::kDrop;
  // Saves the look where it cannot matter.
  if (listener.near == listener.far) return listener.near;
  const bool is_near = settings.near_networks.Contains(client) || IsNearInterface(settings, interface_index);
  return is_near ? listener.near : listener.far;
}

}  // namespace viaduct::relay
