#pragma once

#include <cstdint>

// Packed records of links, addresses, routes and policy routing rules. Conventions: ipvs/record.h.

namespace viaduct::route {

/// A batch's request: add, replace or remove. A dump has kNone, an event kAdd or kRemove.
enum class Op : uint8_t {
  kNone = 0,
  kAdd = 1,
  kReplace = 2,
  kRemove = 3,
};

enum class EventKind : uint8_t {
  kLink = 1,
  kAddress = 2,
  kOverrun = 3,  ///< events were lost: dump again
};

struct RouteRecord {
  uint8_t destination[16];
  uint8_t preferred_source[16];  ///< zero: none
  uint32_t interface_index;
  uint32_t metric;  ///< 0: the kernel's default
  uint32_t table;   ///< RT_TABLE_LOCAL = 255
  Op op;
  uint8_t family;
  uint8_t prefix_length;
  uint8_t protocol;  ///< the route's creator: RTPROT_KERNEL 2, Viaduct 173
  uint8_t type;      ///< RTN_LOCAL 2
  uint8_t scope;     ///< RT_SCOPE_HOST 254; 0 in IPv6 dumps
  uint8_t tos;       ///< only in a dump
  uint8_t reserved[5];
};

/// A packet whose route the kernel is asked for.
struct RouteQueryRecord {
  uint8_t destination[16];
  uint8_t source[16];         ///< zero: the kernel chooses one
  uint32_t input_interface;   ///< the interface by which the packet comes in; 0: the node sends it
  uint32_t mark;              ///< the packet mark
  uint16_t destination_port;  ///< only with a protocol
  uint8_t family;
  uint8_t protocol;  ///< IPPROTO_TCP 6 or IPPROTO_UDP 17, which the kernel takes; 0: not known
};

/// The kernel's answer to a RouteQueryRecord.
struct RouteChoiceRecord {
  uint8_t preferred_source[16];  ///< zero: none
  uint32_t interface_index;      ///< the interface by which the packet leaves; lo for a local address
  uint32_t error;                ///< errno of a packet that the kernel does not route; 0: it routes it
  uint8_t type;                  ///< RTN_UNICAST 1, RTN_LOCAL 2
  uint8_t reserved[3];
};

struct AddressRecord {
  uint8_t address[16];
  uint32_t interface_index;
  uint32_t flags;  ///< IFA_F_*
  Op op;
  uint8_t family;
  uint8_t prefix_length;
  uint8_t scope;
  uint8_t reserved[4];
};

struct LinkRecord {
  char name[16];  ///< IFNAMSIZ, NUL padded
  char kind[16];  ///< IFLA_INFO_KIND ("dummy", "veth"), NUL padded; empty for hardware and loopback
  uint32_t index;
  uint32_t flags;  ///< IFF_*
  Op op;
  uint8_t reserved[7];
};

/// The action of a policy routing rule: FR_ACT_* of linux/fib_rules.h.
enum class RuleAction : uint8_t {
  kTable = 1,
  kGoto = 2,
  kNop = 3,
  kBlackhole = 6,
  kUnreachable = 7,
  kProhibit = 8,
};

/// A policy routing rule, as far as it concerns the packet mark. Its other conditions are left out.
struct RuleRecord {
  uint32_t priority;
  uint32_t mark;
  uint32_t mark_mask;  ///< 0: the rule does not look at the mark
  uint32_t table;      ///< only with kTable
  RuleAction action;
  uint8_t family;
  uint8_t is_inverted;  ///< 1: the rule takes the packets that do not meet its conditions
  uint8_t reserved;
};

/// One message of the event subscription.
struct EventRecord {
  uint32_t interface_index;
  EventKind kind;
  Op op;
  uint8_t family;
  uint8_t prefix_length;
  uint8_t address[16];
  char name[16];
};

}  // namespace viaduct::route
