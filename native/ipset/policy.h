#pragma once

#include <linux/netfilter/ipset/ip_set.h>

#include "core/policy.h"

// Attribute grammar of ipset: linux/netfilter/ipset/ip_set.h, net/netfilter/ipset/ip_set_core.c. Only
// attributes that Viaduct sends or reads. DATA has different contents for sets and for entries.

namespace viaduct::ipset {

inline constexpr AttributePolicy kAddressRows[] = {
    {IPSET_ATTR_IPADDR_IPV4, "IPV4", AttributeKind::kBinary, 4, 4},
    {IPSET_ATTR_IPADDR_IPV6, "IPV6", AttributeKind::kBinary, 16, 16},
};
inline constexpr Policy kAddressPolicy{"IPSET_ATTR_IPADDR", kAddressRows};

/// One entry. SKBMARK is in network order: the mark, then its mask.
inline constexpr AttributePolicy kEntryRows[] = {
    {IPSET_ATTR_IP, "IP", AttributeKind::kNested, 0, 0, &kAddressPolicy},
    {IPSET_ATTR_CIDR, "CIDR", AttributeKind::kU8},
    {IPSET_ATTR_PORT, "PORT", AttributeKind::kBe16},
    {IPSET_ATTR_PROTO, "PROTO", AttributeKind::kU8},
    {IPSET_ATTR_CADT_FLAGS, "CADT_FLAGS", AttributeKind::kBe32},
    {IPSET_ATTR_LINENO, "LINENO", AttributeKind::kBe32},
    {IPSET_ATTR_IP2, "IP2", AttributeKind::kNested, 0, 0, &kAddressPolicy},
    {IPSET_ATTR_CIDR2, "CIDR2", AttributeKind::kU8},
    {IPSET_ATTR_COMMENT, "COMMENT", AttributeKind::kString, 0, IPSET_MAX_COMMENT_SIZE},
    {IPSET_ATTR_SKBMARK, "SKBMARK", AttributeKind::kU64},
};
inline constexpr Policy kEntryPolicy{"IPSET_ATTR", kEntryRows};

/// Any number of entries.
inline constexpr AttributePolicy kEntriesRows[] = {
    {IPSET_ATTR_DATA, "DATA", AttributeKind::kNested, 0, 0, &kEntryPolicy},
};
inline constexpr Policy kEntriesPolicy{"IPSET_ATTR", kEntriesRows};

/// Settings of a set; in a listing also its state.
inline constexpr AttributePolicy kSettingsRows[] = {
    {IPSET_ATTR_PORT, "PORT", AttributeKind::kBe16},
    {IPSET_ATTR_PORT_TO, "PORT_TO", AttributeKind::kBe16},
    {IPSET_ATTR_CADT_FLAGS, "CADT_FLAGS", AttributeKind::kBe32},
    {IPSET_ATTR_HASHSIZE, "HASHSIZE", AttributeKind::kBe32},
    {IPSET_ATTR_MAXELEM, "MAXELEM", AttributeKind::kBe32},
    {IPSET_ATTR_ELEMENTS, "ELEMENTS", AttributeKind::kBe32},
    {IPSET_ATTR_REFERENCES, "REFERENCES", AttributeKind::kBe32},
};
inline constexpr Policy kSettingsPolicy{"IPSET_ATTR", kSettingsRows};

/// Top level of ADD and DEL: either DATA, or ADT and LINENO.
inline constexpr AttributePolicy kEntryCommandRows[] = {
    {IPSET_ATTR_PROTOCOL, "PROTOCOL", AttributeKind::kU8},
    {IPSET_ATTR_SETNAME, "SETNAME", AttributeKind::kString, 1, IPSET_MAXNAMELEN - 1},
    {IPSET_ATTR_DATA, "DATA", AttributeKind::kNested, 0, 0, &kEntryPolicy},
    {IPSET_ATTR_ADT, "ADT", AttributeKind::kNested, 0, 0, &kEntriesPolicy},
    {IPSET_ATTR_LINENO, "LINENO", AttributeKind::kBe32},
};
inline constexpr Policy kEntryCommandPolicy{"IPSET_ATTR", kEntryCommandRows};

/// Top level of the other messages and of the replies. TYPENAME is SETNAME2 in SWAP and RENAME, PROTOCOL_MIN
/// is REVISION_MIN in the reply to TYPE.
inline constexpr AttributePolicy kSetCommandRows[] = {
    {IPSET_ATTR_PROTOCOL, "PROTOCOL", AttributeKind::kU8},
    {IPSET_ATTR_SETNAME, "SETNAME", AttributeKind::kString, 1, IPSET_MAXNAMELEN - 1},
    {IPSET_ATTR_TYPENAME, "TYPENAME", AttributeKind::kString, 1, IPSET_MAXNAMELEN - 1},
    {IPSET_ATTR_REVISION, "REVISION", AttributeKind::kU8},
    {IPSET_ATTR_FAMILY, "FAMILY", AttributeKind::kU8},
    {IPSET_ATTR_FLAGS, "FLAGS", AttributeKind::kBe32},
    {IPSET_ATTR_DATA, "DATA", AttributeKind::kNested, 0, 0, &kSettingsPolicy},
    {IPSET_ATTR_ADT, "ADT", AttributeKind::kNested, 0, 0, &kEntriesPolicy},
    {IPSET_ATTR_PROTOCOL_MIN, "PROTOCOL_MIN", AttributeKind::kU8},
};
inline constexpr Policy kSetCommandPolicy{"IPSET_ATTR", kSetCommandRows};

}  // namespace viaduct::ipset
