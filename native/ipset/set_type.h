#pragma once

#include <cstdint>
#include <string_view>

namespace viaduct::ipset {

/// A type of set that we fill: which parts its entries have.
struct SetType {
  std::string_view name;
  /// The lowest revision with skbinfo, the newest thing that we use: older tools can then still list the set.
  uint8_t revision;
  bool has_address;
  bool has_port;
  bool has_second_address;
  bool has_network;  ///< the last address is a network
};

/// nullptr: not one of ours.
const SetType* FindSetType(std::string_view name);

/// Its entries have a port and nothing else: an array of bits in place of a hash.
constexpr bool IsBitmap(const SetType& type) { return !type.has_address; }
/// A lone port has no protocol.
constexpr bool HasProtocol(const SetType& type) { return type.has_address && type.has_port; }

}  // namespace viaduct::ipset
