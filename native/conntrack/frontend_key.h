#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/seeded_hash.h"

namespace viaduct::conntrack {

/// A frontend, a backend or an address of FrontendIndex.
struct FrontendKey {
  /// IPv6, or IPv4 with zeros behind, in two words.
  uint64_t high;
  uint64_t low;
  uint64_t rest;  ///< protocol and port, backend set and port, or 0

  static FrontendKey Make(const uint8_t (&address)[16], uint64_t rest) {
    FrontendKey key{0, 0, rest};
    memcpy(&key.high, address, sizeof key.high);
    memcpy(&key.low, address + sizeof key.high, sizeof key.low);
    return key;
  }
  bool operator==(const FrontendKey&) const = default;
};

struct FrontendKeyHash {
  size_t operator()(const FrontendKey& key) const {
    return SeededHash().Add(key.high).Add(key.low).Add(key.rest).value();
  }
};

}  // namespace viaduct::conntrack
