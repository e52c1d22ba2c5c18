#pragma once

#include <cstddef>
#include <cstdint>

// The packed records that cross between TypeScript and C++ (src/kernel/records.ts mirrors them and checks
// itself against `layout` at load). Little endian, host byte order for every number, padding zero. Addresses
// are 16 bytes in network order; IPv4 uses the first four, the rest is zero. Texts are numbers of NUL-ended
// strings in a table of their own.

namespace viaduct::xtables {

/// No text.
inline constexpr uint32_t kNoText = 0xffffffff;

/// What a ChainRecord asks for. Numbers are part of the boundary.
enum class Op : uint8_t {
  kSetChain = 1,
  kRemoveChain = 2,
  kSetHook = 3,
};

/// One operation: its rules are [first_rule, first_rule + rule_count) of the RuleRecords.
struct ChainRecord {
  uint32_t name;  ///< text
  uint32_t first_rule;
  uint32_t rule_count;
  uint8_t op;  ///< Op
  uint8_t reserved[3];
};
static_assert(sizeof(ChainRecord) == 16);

/// Matches that a rule has beyond addresses, interfaces and protocol: bits of RuleRecord::matches.
enum Match : uint16_t {
  kSourcePorts = 0x0001,
  kDestinationPorts = 0x0002,
  kMark = 0x0004,
  kState = 0x0008,
  kAddressType = 0x0010,
  kSet = 0x0020,
  kSourceDestination = 0x0040,  ///< bpf: source address == destination address
  kRecent = 0x0080,
  kStatistic = 0x0100,
};

/// What is inverted: bits of RuleRecord::inverts.
enum Invert : uint16_t {
  kInvertSource = 0x0001,
  kInvertDestination = 0x0002,
  kInvertInInterface = 0x0004,
  kInvertOutInterface = 0x0008,
  kInvertMark = 0x0010,
  kInvertState = 0x0020,
  kInvertAddressType = 0x0040,
  kInvertSet = 0x0080,
};

/// RuleRecord::target.
enum class Target : uint8_t {
  kJump = 1,
  kGoto = 2,
  kAccept = 3,
  kDrop = 4,
  kReturn = 5,
  kMark = 6,        ///< target_value, target_mask
  kDnat = 7,        ///< nat_address, nat_port
  kMasquerade = 8,  ///< target_value: 1 = random-fully
  kReject = 9,
  kMapMark = 10,  ///< set_name, set_dimensions, set_sources: the mark becomes that of the set's entry
};

/// One rule, of either family.
struct RuleRecord {
  uint8_t source[16];
  uint8_t destination[16];
  uint8_t nat_address[16];
  uint32_t in_interface;   ///< text; ends in '+': a prefix
  uint32_t out_interface;  ///< text
  uint32_t comment;        ///< text
  uint32_t target_chain;   ///< text
  uint32_t recent_list;    ///< text
  uint32_t set_name;       ///< text
  uint32_t mark_value;
  uint32_t mark_mask;
  uint32_t target_value;
  uint32_t target_mask;
  uint32_t probability;     ///< of 2^31
  uint32_t recent_seconds;  ///< check: 0 = of any age
  uint16_t source_port_from;
  uint16_t source_port_to;
  uint16_t destination_port_from;
  uint16_t destination_port_to;
  uint16_t nat_port;
  uint16_t state;    ///< XT_CONNTRACK_STATE bits
  uint16_t matches;  ///< Match
  uint16_t inverts;  ///< Invert
  uint8_t source_prefix;
  uint8_t destination_prefix;
  uint8_t protocol;      ///< IPPROTO_*; 0: any
  uint8_t target;        ///< Target
  uint8_t recent_check;  ///< 1: check (and reap), 0: set
  uint8_t address_type;  ///< 1: of the source, 2: of the destination
  uint8_t set_dimensions;
  uint8_t set_sources;  ///< bit i: dimension i is taken from the packet's source
};
static_assert(sizeof(RuleRecord) == 120);
static_assert(offsetof(RuleRecord, in_interface) == 48 && offsetof(RuleRecord, source_port_from) == 96);
static_assert(offsetof(RuleRecord, source_prefix) == 112);

}  // namespace viaduct::xtables
