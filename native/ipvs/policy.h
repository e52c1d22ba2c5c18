#pragma once

#include <linux/genetlink.h>
#include <linux/ip_vs.h>

#include "core/policy.h"

// Attribute grammar of the IPVS generic netlink family: linux/ip_vs.h, net/netfilter/ipvs/ip_vs_ctl.c
// (ip_vs_cmd_policy, ip_vs_svc_policy, ip_vs_dest_policy). Encoder, decoders, fuzzers and docs/wire/ipvs.md
// follow it.

namespace viaduct::ipvs {

/// STATS: bytes are u64, the rest u32 (ip_vs_genl_fill_stats). Rates are not listed: they are not read.
inline constexpr AttributePolicy kStatsRows[] = {
    {IPVS_STATS_ATTR_CONNS, "CONNS", AttributeKind::kU32},
    {IPVS_STATS_ATTR_INPKTS, "INPKTS", AttributeKind::kU32},
    {IPVS_STATS_ATTR_OUTPKTS, "OUTPKTS", AttributeKind::kU32},
    {IPVS_STATS_ATTR_INBYTES, "INBYTES", AttributeKind::kU64},
    {IPVS_STATS_ATTR_OUTBYTES, "OUTBYTES", AttributeKind::kU64},
};
inline constexpr Policy kStatsPolicy{"IPVS_STATS_ATTR", kStatsRows};

/// STATS64: all u64 (ip_vs_genl_fill_stats64).
inline constexpr AttributePolicy kStats64Rows[] = {
    {IPVS_STATS_ATTR_CONNS, "CONNS", AttributeKind::kU64},
    {IPVS_STATS_ATTR_INPKTS, "INPKTS", AttributeKind::kU64},
    {IPVS_STATS_ATTR_OUTPKTS, "OUTPKTS", AttributeKind::kU64},
    {IPVS_STATS_ATTR_INBYTES, "INBYTES", AttributeKind::kU64},
    {IPVS_STATS_ATTR_OUTBYTES, "OUTBYTES", AttributeKind::kU64},
};
inline constexpr Policy kStats64Policy{"IPVS_STATS_ATTR", kStats64Rows};

inline constexpr AttributePolicy kServiceRows[] = {
    {IPVS_SVC_ATTR_AF, "AF", AttributeKind::kU16},
    {IPVS_SVC_ATTR_PROTOCOL, "PROTOCOL", AttributeKind::kU16},
    {IPVS_SVC_ATTR_ADDR, "ADDR", AttributeKind::kBinary, 4, 16},
    {IPVS_SVC_ATTR_PORT, "PORT", AttributeKind::kBe16},
    {IPVS_SVC_ATTR_FWMARK, "FWMARK", AttributeKind::kU32},
    {IPVS_SVC_ATTR_SCHED_NAME, "SCHED_NAME", AttributeKind::kString, 0, IP_VS_SCHEDNAME_MAXLEN - 1},
    {IPVS_SVC_ATTR_FLAGS, "FLAGS", AttributeKind::kBinary, sizeof(ip_vs_flags), sizeof(ip_vs_flags)},
    {IPVS_SVC_ATTR_TIMEOUT, "TIMEOUT", AttributeKind::kU32},
    // IPv4: mask in network order; IPv6: prefix length in host order.
    {IPVS_SVC_ATTR_NETMASK, "NETMASK", AttributeKind::kU32},
    {IPVS_SVC_ATTR_STATS, "STATS", AttributeKind::kNested, 0, 0, &kStatsPolicy},
    {IPVS_SVC_ATTR_PE_NAME, "PE_NAME", AttributeKind::kString, 0, IP_VS_PENAME_MAXLEN - 1},
    {IPVS_SVC_ATTR_STATS64, "STATS64", AttributeKind::kNested, 0, 0, &kStats64Policy},
};
inline constexpr Policy kServicePolicy{"IPVS_SVC_ATTR", kServiceRows};

inline constexpr AttributePolicy kDestinationRows[] = {
    {IPVS_DEST_ATTR_ADDR, "ADDR", AttributeKind::kBinary, 4, 16},
    {IPVS_DEST_ATTR_PORT, "PORT", AttributeKind::kBe16},
    {IPVS_DEST_ATTR_FWD_METHOD, "FWD_METHOD", AttributeKind::kU32},
    {IPVS_DEST_ATTR_WEIGHT, "WEIGHT", AttributeKind::kU32},
    {IPVS_DEST_ATTR_U_THRESH, "U_THRESH", AttributeKind::kU32},
    {IPVS_DEST_ATTR_L_THRESH, "L_THRESH", AttributeKind::kU32},
    {IPVS_DEST_ATTR_ACTIVE_CONNS, "ACTIVE_CONNS", AttributeKind::kU32},
    {IPVS_DEST_ATTR_INACT_CONNS, "INACT_CONNS", AttributeKind::kU32},
    {IPVS_DEST_ATTR_PERSIST_CONNS, "PERSIST_CONNS", AttributeKind::kU32},
    {IPVS_DEST_ATTR_STATS, "STATS", AttributeKind::kNested, 0, 0, &kStatsPolicy},
    {IPVS_DEST_ATTR_ADDR_FAMILY, "ADDR_FAMILY", AttributeKind::kU16},
    {IPVS_DEST_ATTR_STATS64, "STATS64", AttributeKind::kNested, 0, 0, &kStats64Policy},
    {IPVS_DEST_ATTR_TUN_TYPE, "TUN_TYPE", AttributeKind::kU8},
    {IPVS_DEST_ATTR_TUN_PORT, "TUN_PORT", AttributeKind::kBe16},
    {IPVS_DEST_ATTR_TUN_FLAGS, "TUN_FLAGS", AttributeKind::kU16},
};
inline constexpr Policy kDestinationPolicy{"IPVS_DEST_ATTR", kDestinationRows};

/// Top level of every command except GET_INFO's reply.
inline constexpr AttributePolicy kCommandRows[] = {
    {IPVS_CMD_ATTR_SERVICE, "SERVICE", AttributeKind::kNested, 0, 0, &kServicePolicy},
    {IPVS_CMD_ATTR_DEST, "DEST", AttributeKind::kNested, 0, 0, &kDestinationPolicy},
    {IPVS_CMD_ATTR_TIMEOUT_TCP, "TIMEOUT_TCP", AttributeKind::kU32},
    {IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, "TIMEOUT_TCP_FIN", AttributeKind::kU32},
    {IPVS_CMD_ATTR_TIMEOUT_UDP, "TIMEOUT_UDP", AttributeKind::kU32},
};
inline constexpr Policy kCommandPolicy{"IPVS_CMD_ATTR", kCommandRows};

/// Reply of CTRL_CMD_GETFAMILY (linux/genetlink.h): the attributes in use.
inline constexpr AttributePolicy kControlRows[] = {
    {CTRL_ATTR_FAMILY_ID, "FAMILY_ID", AttributeKind::kU16},
    {CTRL_ATTR_FAMILY_NAME, "FAMILY_NAME", AttributeKind::kString, 0, GENL_NAMSIZ - 1},
};
inline constexpr Policy kControlPolicy{"CTRL_ATTR", kControlRows};

}  // namespace viaduct::ipvs
