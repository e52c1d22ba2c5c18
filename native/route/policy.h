#pragma once

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include "core/policy.h"

// Attribute grammar of the rtnetlink messages that Viaduct uses: linux/rtnetlink.h, linux/if_addr.h,
// linux/if_link.h, linux/fib_rules.h. Only attributes that Viaduct sends or reads; the kernel sends many
// more.

namespace viaduct::route {

inline constexpr AttributePolicy kRouteRows[] = {
    {RTA_DST, "DST", AttributeKind::kBinary, 4, 16},
    {RTA_SRC, "SRC", AttributeKind::kBinary, 4, 16},
    {RTA_IIF, "IIF", AttributeKind::kU32},
    {RTA_OIF, "OIF", AttributeKind::kU32},
    {RTA_GATEWAY, "GATEWAY", AttributeKind::kBinary, 4, 16},
    {RTA_PRIORITY, "PRIORITY", AttributeKind::kU32},
    {RTA_PREFSRC, "PREFSRC", AttributeKind::kBinary, 4, 16},
    {RTA_MULTIPATH, "MULTIPATH", AttributeKind::kBinary, 8, 0xffff},
    {RTA_TABLE, "TABLE", AttributeKind::kU32},
    {RTA_MARK, "MARK", AttributeKind::kU32},
    {RTA_VIA, "VIA", AttributeKind::kBinary, 2, 34},
    {RTA_IP_PROTO, "IP_PROTO", AttributeKind::kU8},
    {RTA_DPORT, "DPORT", AttributeKind::kBe16},
};
inline constexpr Policy kRoutePolicy{"RTA", kRouteRows};

/// The attributes after each rtnexthop of RTA_MULTIPATH.
inline constexpr AttributePolicy kNextHopRows[] = {
    {RTA_GATEWAY, "GATEWAY", AttributeKind::kBinary, 4, 16},
};
inline constexpr Policy kNextHopPolicy{"RTNH", kNextHopRows};

inline constexpr AttributePolicy kAddressRows[] = {
    {IFA_ADDRESS, "ADDRESS", AttributeKind::kBinary, 4, 16},
    {IFA_LOCAL, "LOCAL", AttributeKind::kBinary, 4, 16},
    {IFA_FLAGS, "FLAGS", AttributeKind::kU32},
};
inline constexpr Policy kAddressPolicy{"IFA", kAddressRows};

inline constexpr AttributePolicy kLinkInfoRows[] = {
    {IFLA_INFO_KIND, "KIND", AttributeKind::kString, 0, 64},
};
inline constexpr Policy kLinkInfoPolicy{"IFLA_INFO", kLinkInfoRows};

inline constexpr AttributePolicy kLinkRows[] = {
    {IFLA_IFNAME, "IFNAME", AttributeKind::kString, 0, IFNAMSIZ - 1},
    {IFLA_LINKINFO, "LINKINFO", AttributeKind::kNested, 0, 0, &kLinkInfoPolicy},
};
inline constexpr Policy kLinkPolicy{"IFLA", kLinkRows};

inline constexpr AttributePolicy kRuleRows[] = {
    {FRA_PRIORITY, "PRIORITY", AttributeKind::kU32},
    {FRA_FWMARK, "FWMARK", AttributeKind::kU32},
    {FRA_TABLE, "TABLE", AttributeKind::kU32},
    {FRA_FWMASK, "FWMASK", AttributeKind::kU32},
};
inline constexpr Policy kRulePolicy{"FRA", kRuleRows};

}  // namespace viaduct::route
