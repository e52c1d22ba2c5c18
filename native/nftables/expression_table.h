#pragma once

#include "nftables/policy.h"

// The expressions of rules: net/netfilter/nft_*.c. The rows of each follow its policy there. An expression
// with an attribute that has no row here is kept as raw bytes.

namespace viaduct::nftables {

inline constexpr AttributePolicy kPayloadRows[] = {
    {NFTA_PAYLOAD_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_PAYLOAD_BASE, "BASE", AttributeKind::kBe32},
    {NFTA_PAYLOAD_OFFSET, "OFFSET", AttributeKind::kBe32},
    {NFTA_PAYLOAD_LEN, "LEN", AttributeKind::kBe32},
};
inline constexpr Policy kPayloadPolicy{"NFTA_PAYLOAD", kPayloadRows};

inline constexpr AttributePolicy kMetaRows[] = {
    {NFTA_META_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_META_KEY, "KEY", AttributeKind::kBe32},
    {NFTA_META_SREG, "SREG", AttributeKind::kRegister},
};
inline constexpr Policy kMetaPolicy{"NFTA_META", kMetaRows};

inline constexpr AttributePolicy kCtRows[] = {
    {NFTA_CT_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_CT_KEY, "KEY", AttributeKind::kBe32},
    {NFTA_CT_DIRECTION, "DIRECTION", AttributeKind::kU8},
    {NFTA_CT_SREG, "SREG", AttributeKind::kRegister},
};
inline constexpr Policy kCtPolicy{"NFTA_CT", kCtRows};

inline constexpr AttributePolicy kFibRows[] = {
    {NFTA_FIB_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_FIB_RESULT, "RESULT", AttributeKind::kBe32},
    {NFTA_FIB_FLAGS, "FLAGS", AttributeKind::kBe32},
};
inline constexpr Policy kFibPolicy{"NFTA_FIB", kFibRows};

inline constexpr AttributePolicy kLookupRows[] = {
    {NFTA_LOOKUP_SET, "SET", AttributeKind::kString, 1, kMaxName},
    {NFTA_LOOKUP_SREG, "SREG", AttributeKind::kRegister},
    {NFTA_LOOKUP_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_LOOKUP_SET_ID, "SET_ID", AttributeKind::kBe32},
    {NFTA_LOOKUP_FLAGS, "FLAGS", AttributeKind::kBe32},
};
inline constexpr Policy kLookupPolicy{"NFTA_LOOKUP", kLookupRows};

inline constexpr AttributePolicy kNumgenRows[] = {
    {NFTA_NG_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_NG_MODULUS, "MODULUS", AttributeKind::kBe32},
    {NFTA_NG_TYPE, "TYPE", AttributeKind::kBe32},
    {NFTA_NG_OFFSET, "OFFSET", AttributeKind::kBe32},
};
inline constexpr Policy kNumgenPolicy{"NFTA_NG", kNumgenRows};

inline constexpr AttributePolicy kHashRows[] = {
    {NFTA_HASH_SREG, "SREG", AttributeKind::kRegister}, {NFTA_HASH_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_HASH_LEN, "LEN", AttributeKind::kBe32},       {NFTA_HASH_MODULUS, "MODULUS", AttributeKind::kBe32},
    {NFTA_HASH_SEED, "SEED", AttributeKind::kBe32},     {NFTA_HASH_OFFSET, "OFFSET", AttributeKind::kBe32},
    {NFTA_HASH_TYPE, "TYPE", AttributeKind::kBe32},
};
inline constexpr Policy kHashPolicy{"NFTA_HASH", kHashRows};

inline constexpr AttributePolicy kNatRows[] = {
    {NFTA_NAT_TYPE, "TYPE", AttributeKind::kBe32},
    {NFTA_NAT_FAMILY, "FAMILY", AttributeKind::kBe32},
    {NFTA_NAT_REG_ADDR_MIN, "REG_ADDR_MIN", AttributeKind::kRegister},
    {NFTA_NAT_REG_ADDR_MAX, "REG_ADDR_MAX", AttributeKind::kRegister},
    {NFTA_NAT_REG_PROTO_MIN, "REG_PROTO_MIN", AttributeKind::kRegister},
    {NFTA_NAT_REG_PROTO_MAX, "REG_PROTO_MAX", AttributeKind::kRegister},
    {NFTA_NAT_FLAGS, "FLAGS", AttributeKind::kBe32},
};
inline constexpr Policy kNatPolicy{"NFTA_NAT", kNatRows};

inline constexpr AttributePolicy kMasqRows[] = {
    {NFTA_MASQ_FLAGS, "FLAGS", AttributeKind::kBe32},
    {NFTA_MASQ_REG_PROTO_MIN, "REG_PROTO_MIN", AttributeKind::kRegister},
    {NFTA_MASQ_REG_PROTO_MAX, "REG_PROTO_MAX", AttributeKind::kRegister},
};
inline constexpr Policy kMasqPolicy{"NFTA_MASQ", kMasqRows};

inline constexpr AttributePolicy kRejectRows[] = {
    {NFTA_REJECT_TYPE, "TYPE", AttributeKind::kBe32},
    {NFTA_REJECT_ICMP_CODE, "ICMP_CODE", AttributeKind::kU8},
};
inline constexpr Policy kRejectPolicy{"NFTA_REJECT", kRejectRows};

inline constexpr AttributePolicy kImmediateRows[] = {
    {NFTA_IMMEDIATE_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_IMMEDIATE_DATA, "DATA", AttributeKind::kNested, 0, 0, &kDataPolicy},
};
inline constexpr Policy kImmediatePolicy{"NFTA_IMMEDIATE", kImmediateRows};

inline constexpr AttributePolicy kBitwiseRows[] = {
    {NFTA_BITWISE_SREG, "SREG", AttributeKind::kRegister},
    {NFTA_BITWISE_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_BITWISE_LEN, "LEN", AttributeKind::kBe32},
    {NFTA_BITWISE_MASK, "MASK", AttributeKind::kNested, 0, 0, &kDataPolicy},
    {NFTA_BITWISE_XOR, "XOR", AttributeKind::kNested, 0, 0, &kDataPolicy},
    {NFTA_BITWISE_OP, "OP", AttributeKind::kBe32},
    {NFTA_BITWISE_DATA, "DATA", AttributeKind::kNested, 0, 0, &kDataPolicy},
};
inline constexpr Policy kBitwisePolicy{"NFTA_BITWISE", kBitwiseRows};

inline constexpr AttributePolicy kByteorderRows[] = {
    {NFTA_BYTEORDER_SREG, "SREG", AttributeKind::kRegister},
    {NFTA_BYTEORDER_DREG, "DREG", AttributeKind::kRegister},
    {NFTA_BYTEORDER_OP, "OP", AttributeKind::kBe32},
    {NFTA_BYTEORDER_LEN, "LEN", AttributeKind::kBe32},
    {NFTA_BYTEORDER_SIZE, "SIZE", AttributeKind::kBe32},
};
inline constexpr Policy kByteorderPolicy{"NFTA_BYTEORDER", kByteorderRows};

inline constexpr AttributePolicy kCmpRows[] = {
    {NFTA_CMP_SREG, "SREG", AttributeKind::kRegister},
    {NFTA_CMP_OP, "OP", AttributeKind::kBe32},
    {NFTA_CMP_DATA, "DATA", AttributeKind::kNested, 0, 0, &kDataPolicy},
};
inline constexpr Policy kCmpPolicy{"NFTA_CMP", kCmpRows};

inline constexpr AttributePolicy kRangeRows[] = {
    {NFTA_RANGE_SREG, "SREG", AttributeKind::kRegister},
    {NFTA_RANGE_OP, "OP", AttributeKind::kBe32},
    {NFTA_RANGE_FROM_DATA, "FROM_DATA", AttributeKind::kNested, 0, 0, &kDataPolicy},
    {NFTA_RANGE_TO_DATA, "TO_DATA", AttributeKind::kNested, 0, 0, &kDataPolicy},
};
inline constexpr Policy kRangePolicy{"NFTA_RANGE", kRangeRows};

inline constexpr AttributePolicy kDynsetRows[] = {
    {NFTA_DYNSET_SET_NAME, "SET_NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_DYNSET_OP, "OP", AttributeKind::kBe32},
    {NFTA_DYNSET_SREG_KEY, "SREG_KEY", AttributeKind::kRegister},
    {NFTA_DYNSET_SREG_DATA, "SREG_DATA", AttributeKind::kRegister},
    {NFTA_DYNSET_TIMEOUT, "TIMEOUT", AttributeKind::kBe64},
    {NFTA_DYNSET_EXPR, "EXPR", AttributeKind::kExpression},
    {NFTA_DYNSET_FLAGS, "FLAGS", AttributeKind::kBe32},
};
inline constexpr Policy kDynsetPolicy{"NFTA_DYNSET", kDynsetRows};

inline constexpr AttributePolicy kObjrefRows[] = {
    {NFTA_OBJREF_IMM_TYPE, "IMM_TYPE", AttributeKind::kBe32},
    {NFTA_OBJREF_IMM_NAME, "IMM_NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_OBJREF_SET_SREG, "SET_SREG", AttributeKind::kRegister},
    {NFTA_OBJREF_SET_NAME, "SET_NAME", AttributeKind::kString, 1, kMaxName},
};
inline constexpr Policy kObjrefPolicy{"NFTA_OBJREF", kObjrefRows};

inline constexpr AttributePolicy kLimitRows[] = {
    {NFTA_LIMIT_RATE, "RATE", AttributeKind::kBe64},   {NFTA_LIMIT_UNIT, "UNIT", AttributeKind::kBe64},
    {NFTA_LIMIT_BURST, "BURST", AttributeKind::kBe32}, {NFTA_LIMIT_TYPE, "TYPE", AttributeKind::kBe32},
    {NFTA_LIMIT_FLAGS, "FLAGS", AttributeKind::kBe32},
};
inline constexpr Policy kLimitPolicy{"NFTA_LIMIT", kLimitRows};

inline constexpr AttributePolicy kMatchRows[] = {
    {NFTA_MATCH_NAME, "NAME", AttributeKind::kString, 1, NFT_COMPAT_NAME_MAX - 1},
    {NFTA_MATCH_REV, "REV", AttributeKind::kBe32},
    {NFTA_MATCH_INFO, "INFO", AttributeKind::kBinary, 0, kMaxInfo},
};
inline constexpr Policy kMatchPolicy{"NFTA_MATCH", kMatchRows};

inline constexpr AttributePolicy kTargetRows[] = {
    {NFTA_TARGET_NAME, "NAME", AttributeKind::kString, 1, NFT_COMPAT_NAME_MAX - 1},
    {NFTA_TARGET_REV, "REV", AttributeKind::kBe32},
    {NFTA_TARGET_INFO, "INFO", AttributeKind::kBinary, 0, kMaxInfo},
};
inline constexpr Policy kTargetPolicy{"NFTA_TARGET", kTargetRows};

inline constexpr ExpressionPolicy kExpressions[] = {
    {"payload", &kPayloadPolicy}, {"meta", &kMetaPolicy},
    {"ct", &kCtPolicy},           {"fib", &kFibPolicy},
    {"lookup", &kLookupPolicy},   {"numgen", &kNumgenPolicy},
    {"hash", &kHashPolicy},       {"nat", &kNatPolicy},
    {"masq", &kMasqPolicy},       {"reject", &kRejectPolicy},
    {"counter", &kCounterPolicy}, {"immediate", &kImmediatePolicy},
    {"bitwise", &kBitwisePolicy}, {"byteorder", &kByteorderPolicy},
    {"cmp", &kCmpPolicy},         {"range", &kRangePolicy},
    {"dynset", &kDynsetPolicy},   {"objref", &kObjrefPolicy},
    {"limit", &kLimitPolicy},     {"match", &kMatchPolicy},
    {"target", &kTargetPolicy},
};

}  // namespace viaduct::nftables
