#pragma once

#include <linux/netfilter/nfnetlink_conntrack.h>

#include "core/policy.h"

// Attribute grammar of the ctnetlink messages that Viaduct uses: linux/netfilter/nfnetlink_conntrack.h. Only
// attributes that Viaduct sends or reads; the kernel sends many more.

namespace viaduct::conntrack {

inline constexpr AttributePolicy kIpRows[] = {
    {CTA_IP_V4_SRC, "V4_SRC", AttributeKind::kBinary, 4, 4},
    {CTA_IP_V4_DST, "V4_DST", AttributeKind::kBinary, 4, 4},
    {CTA_IP_V6_SRC, "V6_SRC", AttributeKind::kBinary, 16, 16},
    {CTA_IP_V6_DST, "V6_DST", AttributeKind::kBinary, 16, 16},
};
inline constexpr Policy kIpPolicy{"CTA_IP", kIpRows};

inline constexpr AttributePolicy kProtoRows[] = {
    {CTA_PROTO_NUM, "NUM", AttributeKind::kU8},
    {CTA_PROTO_SRC_PORT, "SRC_PORT", AttributeKind::kBe16},
    {CTA_PROTO_DST_PORT, "DST_PORT", AttributeKind::kBe16},
};
inline constexpr Policy kProtoPolicy{"CTA_PROTO", kProtoRows};

inline constexpr AttributePolicy kTupleRows[] = {
    {CTA_TUPLE_IP, "IP", AttributeKind::kNested, 0, 0, &kIpPolicy},
    {CTA_TUPLE_PROTO, "PROTO", AttributeKind::kNested, 0, 0, &kProtoPolicy},
    {CTA_TUPLE_ZONE, "ZONE", AttributeKind::kBe16},
};
inline constexpr Policy kTuplePolicy{"CTA_TUPLE", kTupleRows};

inline constexpr AttributePolicy kFilterRows[] = {
    {CTA_FILTER_ORIG_FLAGS, "ORIG_FLAGS", AttributeKind::kU32},
    {CTA_FILTER_REPLY_FLAGS, "REPLY_FLAGS", AttributeKind::kU32},
};
inline constexpr Policy kFilterPolicy{"CTA_FILTER", kFilterRows};

inline constexpr AttributePolicy kTcpRows[] = {
    {CTA_PROTOINFO_TCP_STATE, "STATE", AttributeKind::kU8},
};
inline constexpr Policy kTcpPolicy{"CTA_PROTOINFO_TCP", kTcpRows};

inline constexpr AttributePolicy kProtoInfoRows[] = {
    {CTA_PROTOINFO_TCP, "TCP", AttributeKind::kNested, 0, 0, &kTcpPolicy},
};
inline constexpr Policy kProtoInfoPolicy{"CTA_PROTOINFO", kProtoInfoRows};

inline constexpr AttributePolicy kFlowRows[] = {
    {CTA_TUPLE_ORIG, "TUPLE_ORIG", AttributeKind::kNested, 0, 0, &kTuplePolicy},
    {CTA_TUPLE_REPLY, "TUPLE_REPLY", AttributeKind::kNested, 0, 0, &kTuplePolicy},
    {CTA_PROTOINFO, "PROTOINFO", AttributeKind::kNested, 0, 0, &kProtoInfoPolicy},
    {CTA_TIMEOUT, "TIMEOUT", AttributeKind::kBe32},
    {CTA_ID, "ID", AttributeKind::kBe32},
    {CTA_ZONE, "ZONE", AttributeKind::kBe16},
    {CTA_FILTER, "FILTER", AttributeKind::kNested, 0, 0, &kFilterPolicy},
};
inline constexpr Policy kFlowPolicy{"CTA", kFlowRows};

}  // namespace viaduct::conntrack
