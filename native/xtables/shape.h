#pragma once

// First: the kernel's headers then omit the definitions of libc.
#include <netinet/in.h>

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <cstddef>
#include <cstdint>

namespace viaduct::xtables {

/// The differences between the families: the header of an entry and the numbers of the socket options.
struct Shape {
  uint8_t family;  ///< AF_*
  int level;       ///< of the socket options
  int match_revision_option;
  int target_revision_option;
  uint16_t header;         ///< size of ipt_entry, ip6t_entry
  uint16_t target_offset;  ///< of u16 target_offset in the header; next_offset follows it
  uint16_t comefrom;       ///< from here to the end of the header: scratch of the kernel, then counters
  uint16_t counters;       ///< struct xt_counters
};

inline constexpr Shape kIpv4{
    AF_INET,
    IPPROTO_IP,
    IPT_SO_GET_REVISION_MATCH,
    IPT_SO_GET_REVISION_TARGET,
    sizeof(ipt_entry),
    offsetof(ipt_entry, target_offset),
    offsetof(ipt_entry, comefrom),
    offsetof(ipt_entry, counters),
};

// NB: 66 and 67 would succeed: they are other options of IPPROTO_IPV6.
inline constexpr Shape kIpv6{
    AF_INET6,
    IPPROTO_IPV6,
    IP6T_SO_GET_REVISION_MATCH,
    IP6T_SO_GET_REVISION_TARGET,
    sizeof(ip6t_entry),
    offsetof(ip6t_entry, target_offset),
    offsetof(ip6t_entry, comefrom),
    offsetof(ip6t_entry, counters),
};

static_assert(kIpv4.header == 112 && kIpv4.target_offset == 88 && kIpv4.comefrom == 92);
static_assert(kIpv6.header == 168 && kIpv6.target_offset == 140 && kIpv6.comefrom == 144);
static_assert(kIpv6.match_revision_option == 68 && kIpv6.target_revision_option == 69);
// Both families share these numbers and structures; only the entries differ.
static_assert(int{IPT_SO_GET_INFO} == int{IP6T_SO_GET_INFO} && sizeof(ipt_getinfo) == sizeof(ip6t_getinfo));
static_assert(int{IPT_SO_GET_ENTRIES} == int{IP6T_SO_GET_ENTRIES});
static_assert(int{IPT_SO_SET_REPLACE} == int{IP6T_SO_SET_REPLACE} && sizeof(ipt_replace) == 96);
static_assert(int{IPT_SO_SET_ADD_COUNTERS} == int{IP6T_SO_SET_ADD_COUNTERS});

inline const Shape& ShapeOf(uint8_t family) { return family == AF_INET6 ? kIpv6 : kIpv4; }

}  // namespace viaduct::xtables
