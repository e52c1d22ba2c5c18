#pragma once

#include <cstddef>
#include <cstdint>

// Packed records of links, addresses and routes; conventions as in ipvs/record.h.

namespace viaduct::route {

/// Numbers are part of the boundary. In a dump the op byte is 0, in an event it is kAdd or kRemove.
enum class Op : uint8_t { kNone = 0, kAdd = 1, kReplace = 2, kRemove = 3 };

struct RouteRecord {
  uint8_t destination[16];
  uint8_t preferred_source[16];  ///< all zero: none
  uint32_t interface_index;
  uint32_t metric;  ///< 0: the kernel's default
  uint32_t table;   ///< RT_TABLE_LOCAL = 255
  Op op;
  uint8_t family;
  uint8_t prefix_length;
  uint8_t protocol;  ///< who made it: RTPROT_KERNEL 2, ours 173
  uint8_t type;      ///< RTN_LOCAL 2
  uint8_t scope;     ///< RT_SCOPE_HOST 254; IPv6 dumps say 0
  uint8_t tos;       ///< only in a dump
  uint8_t reserved[5];
};
static_assert(sizeof(RouteRecord) == 56);
static_assert(offsetof(RouteRecord, op) == 44);

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
static_assert(sizeof(AddressRecord) == 32);

struct LinkRecord {
  char name[16];  ///< IFNAMSIZ, NUL padded
  char kind[16];  ///< IFLA_INFO_KIND ("dummy", "veth"), NUL padded; empty for hardware and loopback
  uint32_t index;
  uint32_t flags;  ///< IFF_*
  Op op;
  uint8_t reserved[7];
};
static_assert(sizeof(LinkRecord) == 48);

/// One message of the event subscription.
struct EventRecord {
  uint32_t interface_index;
  uint8_t kind;  ///< 1 link, 2 address, 3 overrun (events were lost: dump again)
  Op op;
  uint8_t family;
  uint8_t prefix_length;
  uint8_t address[16];
  char name[16];
};
static_assert(sizeof(EventRecord) == 40);

}  // namespace viaduct::route
