#pragma once

#include <span>
#include <vector>

#include "relay/record.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

/// A set of networks. A lookup takes time in the logarithm of their number.
class NetworkSet {
 public:
  NetworkSet() = default;
  explicit NetworkSet(std::span<const NetworkRecord> networks);
  bool Contains(const IpKey& address) const;

 private:
  struct Range {
    IpKey first;
    IpKey last;
  };
  using Ranges = std::vector<Range>;
  static bool IsIn(const Ranges& ranges, const IpKey& address);
  static void Merge(Ranges& ranges);

  // Ascending and disjoint. Apart, because ::/0 has no IPv4 address in it.
  Ranges ipv4_;
  Ranges ipv6_;
};

}  // namespace viaduct::relay
