#pragma once

#include <cstdint>

// Packed records of chains and rules. Conventions: ipvs/record.h. A text is the index of a NUL-ended string
// in a separate table.

namespace viaduct::xtables {

/// No text.
inline constexpr uint32_t kNoText = 0xffffffff;

/// The request of a ChainRecord.
enum class Op : uint8_t {
  kSetChain = 1,
  kRemoveChain = 2,
  kSetHook = 3,
};

/// One operation. Its rules are [first_rule, first_rule + rule_count) of the RuleRecords.
struct ChainRecord {
  uint32_t name;  ///< text
  uint32_t first_rule;
  uint32_t rule_count;
  uint8_t op;  ///< Op
  uint8_t reserved[3];
};

/// Matches besides addresses, interfaces and protocol: bits of RuleRecord::matches.
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
  kUnconfirmed = 0x0200,  ///< conntrack: the connection has no entry in the kernel's table yet
};

/// Inverted matches: bits of RuleRecord::inverts.
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
  kMapMark = 10,  ///< set_name, set_dimensions, set_sources: takes the mark from the set's entry
};

/// One rule, IPv4 or IPv6.
struct RuleRecord {
  uint8_t source[16];
  uint8_t destination[16];
  uint8_t nat_address[16];
  uint32_t in_interface;   ///< text; a name that ends in '+' is a prefix
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
  uint32_t recent_seconds;  ///< check: 0 = any age
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
  uint8_t address_type;  ///< 1: source, 2: destination
  uint8_t set_dimensions;
  uint8_t set_sources;  ///< bit i: dimension i is the packet's source
};

}  // namespace viaduct::xtables
