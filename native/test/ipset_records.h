#pragma once

#include <netinet/in.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "ipset/record.h"

namespace viaduct::ipset {

/// A set with room for 65,536 entries in 1,024 buckets.
inline SetRecord MakeSet(std::string_view name, std::string_view type, uint8_t family = AF_INET) {
  SetRecord set{};
  name.copy(set.name, sizeof set.name - 1);
  type.copy(set.type, sizeof set.type - 1);
  set.max_elements = 65536;
  set.hash_size = 1024;
  set.family = family;
  return set;
}

/// 10.96.0.`last` or fd00::`last`, tcp:`port`; the second address is 10.96.1.0/24 or fd01::/16.
inline EntryRecord MakeEntry(uint8_t last, uint16_t port, uint8_t family = AF_INET) {
  const bool is_ipv4 = family == AF_INET;
  EntryRecord entry{};
  entry.address[0] = is_ipv4 ? 10 : 0xfd;
  entry.address[1] = is_ipv4 ? 96 : 0;
  memcpy(entry.second_address, entry.address, sizeof entry.address);
  entry.address[is_ipv4 ? 3 : 15] = last;
  entry.second_address[is_ipv4 ? 2 : 1] = 1;
  entry.prefix_length = is_ipv4 ? 24 : 16;
  entry.port = port;
  entry.family = family;
  entry.protocol = IPPROTO_TCP;
  return entry;
}

/// A batch that owns its tables.
struct Records {
  std::vector<OpRecord> ops = {};
  std::vector<SetRecord> sets = {};
  std::vector<EntryRecord> entries = {};
  std::vector<uint8_t> texts = {};

  void Add(Op op, uint32_t set, uint32_t object = 0) { ops.push_back({set, object, op, {}}); }
  void AddEntry(Op op, uint32_t set, const EntryRecord& entry) {
    Add(op, set, static_cast<uint32_t>(entries.size()));
    entries.push_back(entry);
  }
  Batch batch() const { return {ops, sets, entries, texts}; }
};

}  // namespace viaduct::ipset
