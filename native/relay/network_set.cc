#include "relay/network_set.h"

#include <algorithm>

namespace viaduct::relay {

NetworkSet::NetworkSet(std::span<const NetworkRecord> networks) {
  for (const NetworkRecord& network : networks) {
    const bool is_ipv4 = network.family == AF_INET;
    const IpKey address = MakeIpKey(network.address, network.family);
    Range range{address, address};
    for (size_t bit = network.prefix_length + (is_ipv4 ? 96U : 0U); bit < 128; ++bit) {
      const auto mask = static_cast<uint8_t>(0x80 >> (bit % 8));
      range.first[bit / 8] &= static_cast<uint8_t>(~mask);
      range.last[bit / 8] |= mask;
    }
    (is_ipv4 ? ipv4_ : ipv6_).push_back(range);
  }
  Merge(ipv4_);
  Merge(ipv6_);
}

void NetworkSet::Merge(Ranges& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  Ranges merged;
  for (const Range& range : ranges) {
    if (merged.empty() || merged.back().last < range.first)
      merged.push_back(range);
    else
      merged.back().last = std::max(merged.back().last, range.last);
  }
  ranges = std::move(merged);
}

bool NetworkSet::Contains(const IpKey& address) const {
  return IsIn(IsIpv4(address) ? ipv4_ : ipv6_, address);
}

bool NetworkSet::IsIn(const Ranges& ranges, const IpKey& address) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                      [](const IpKey& key, const Range& range) { return key < range.first; });
  return after != ranges.begin() && address <= std::prev(after)->last;
}

}  // namespace viaduct::relay
