#pragma once

#include <cstdint>
#include <string_view>

namespace viaduct::ipset {

/// A set type that Viaduct uses, and the parts of its entries.
struct SetType {
  std::string_view name;
  /// The lowest revision with skbinfo, the newest feature in use. Older tools can then still list the set.
  uint8_t revision;
  bool has_address;
  bool has_port;
  bool has_second_address;
  bool has_network;  ///< the last address is a network
};

/// nullptr: a type that Viaduct does not use.
const SetType* FindSetType(std::string_view name);

/// Whether entries are only ports: then the set is a bitmap, not a hash.
constexpr bool IsBitmap(const SetType& type) { return !type.has_address; }
/// Whether entries have a protocol. A port without an address has none.
constexpr bool HasProtocol(const SetType& type) { return type.has_address && type.has_port; }

}  // namespace viaduct::ipset
