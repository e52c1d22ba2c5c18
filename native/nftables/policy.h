#pragma once

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>

#include <span>
#include <string_view>

#include "core/policy.h"

// Attribute grammar of the nf_tables messages that Viaduct uses: linux/netfilter/nf_tables.h. One table
// describes both directions (object_codec.h). src/kernel/nftables/schema.ts has the same tables with the rows
// in the same order. The addon exports DescribeGrammar(), so that a difference is an error at start.
// Attributes of an object without a row are skipped.

namespace viaduct::nftables {

/// NFT_USERDATA_MAXLEN: longest data that a tool attaches to an object.
inline constexpr uint16_t kMaxUserdata = 256;
inline constexpr uint16_t kMaxName = NFT_NAME_MAXLEN - 1;
inline constexpr uint16_t kMaxTypeName = 31;
/// NFT_DATA_VALUE_MAXLEN: four registers.
inline constexpr uint16_t kMaxValue = 64;
/// Largest data of an x_tables match or target: the payload of an attribute.
inline constexpr uint16_t kMaxInfo = 65531;

inline constexpr AttributePolicy kVerdictRows[] = {
    {NFTA_VERDICT_CODE, "CODE", AttributeKind::kBe32},
    {NFTA_VERDICT_CHAIN, "CHAIN", AttributeKind::kString, 1, kMaxName},
};
inline constexpr Policy kVerdictPolicy{"NFTA_VERDICT", kVerdictRows};

inline constexpr AttributePolicy kDataRows[] = {
    {NFTA_DATA_VALUE, "VALUE", AttributeKind::kBinary, 1, kMaxValue},
    {NFTA_DATA_VERDICT, "VERDICT", AttributeKind::kNested, 0, 0, &kVerdictPolicy},
};
inline constexpr Policy kDataPolicy{"NFTA_DATA", kDataRows};

inline constexpr AttributePolicy kTableRows[] = {
    {NFTA_TABLE_NAME, "NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_TABLE_FLAGS, "FLAGS", AttributeKind::kBe32},
    {NFTA_TABLE_HANDLE, "HANDLE", AttributeKind::kBe64},
    {NFTA_TABLE_USERDATA, "USERDATA", AttributeKind::kBinary, 0, kMaxUserdata},
    {NFTA_TABLE_OWNER, "OWNER", AttributeKind::kBe32},
};
inline constexpr Policy kTablePolicy{"NFTA_TABLE", kTableRows};

inline constexpr AttributePolicy kHookRows[] = {
    {NFTA_HOOK_HOOKNUM, "HOOKNUM", AttributeKind::kBe32},
    {NFTA_HOOK_PRIORITY, "PRIORITY", AttributeKind::kBe32},
};
inline constexpr Policy kHookPolicy{"NFTA_HOOK", kHookRows};

inline constexpr AttributePolicy kChainRows[] = {
    {NFTA_CHAIN_TABLE, "TABLE", AttributeKind::kString, 1, kMaxName},
    {NFTA_CHAIN_HANDLE, "HANDLE", AttributeKind::kBe64},
    {NFTA_CHAIN_NAME, "NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_CHAIN_HOOK, "HOOK", AttributeKind::kNested, 0, 0, &kHookPolicy},
    {NFTA_CHAIN_POLICY, "POLICY", AttributeKind::kBe32},
    {NFTA_CHAIN_TYPE, "TYPE", AttributeKind::kString, 1, kMaxTypeName},
    {NFTA_CHAIN_USERDATA, "USERDATA", AttributeKind::kBinary, 0, kMaxUserdata},
};
inline constexpr Policy kChainPolicy{"NFTA_CHAIN", kChainRows};

inline constexpr AttributePolicy kCompatRows[] = {
    {NFTA_RULE_COMPAT_PROTO, "PROTO", AttributeKind::kBe32},
    {NFTA_RULE_COMPAT_FLAGS, "FLAGS", AttributeKind::kBe32},
};
inline constexpr Policy kCompatPolicy{"NFTA_RULE_COMPAT", kCompatRows};

inline constexpr AttributePolicy kRuleRows[] = {
    {NFTA_RULE_TABLE, "TABLE", AttributeKind::kString, 1, kMaxName},
    {NFTA_RULE_CHAIN, "CHAIN", AttributeKind::kString, 1, kMaxName},
    {NFTA_RULE_HANDLE, "HANDLE", AttributeKind::kBe64},
    {NFTA_RULE_EXPRESSIONS, "EXPRESSIONS", AttributeKind::kExpressions},
    {NFTA_RULE_COMPAT, "COMPAT", AttributeKind::kNested, 0, 0, &kCompatPolicy},
    {NFTA_RULE_POSITION, "POSITION", AttributeKind::kBe64},
    {NFTA_RULE_USERDATA, "USERDATA", AttributeKind::kBinary, 0, kMaxUserdata},
};
inline constexpr Policy kRulePolicy{"NFTA_RULE", kRuleRows};

inline constexpr AttributePolicy kFieldRows[] = {
    {NFTA_SET_FIELD_LEN, "LEN", AttributeKind::kBe32},
};
inline constexpr Policy kFieldPolicy{"NFTA_SET_FIELD", kFieldRows};

inline constexpr AttributePolicy kDescriptionRows[] = {
    {NFTA_SET_DESC_SIZE, "SIZE", AttributeKind::kBe32},
    {NFTA_SET_DESC_CONCAT, "CONCAT", AttributeKind::kList, 0, 0, &kFieldPolicy},
};
inline constexpr Policy kDescriptionPolicy{"NFTA_SET_DESC", kDescriptionRows};

/// NFTA_SET_COUNT of kernels since 6.16, which older headers lack: the number of elements.
inline constexpr uint16_t kSetCount = 20;

inline constexpr AttributePolicy kSetRows[] = {
    {NFTA_SET_TABLE, "TABLE", AttributeKind::kString, 1, kMaxName},
    {NFTA_SET_NAME, "NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_SET_FLAGS, "FLAGS", AttributeKind::kBe32},
    {NFTA_SET_KEY_TYPE, "KEY_TYPE", AttributeKind::kBe32},
    {NFTA_SET_KEY_LEN, "KEY_LEN", AttributeKind::kBe32},
    {NFTA_SET_DATA_TYPE, "DATA_TYPE", AttributeKind::kBe32},
    {NFTA_SET_DATA_LEN, "DATA_LEN", AttributeKind::kBe32},
    {NFTA_SET_DESC, "DESC", AttributeKind::kNested, 0, 0, &kDescriptionPolicy},
    {NFTA_SET_ID, "ID", AttributeKind::kBe32},
    {NFTA_SET_TIMEOUT, "TIMEOUT", AttributeKind::kBe64},
    {NFTA_SET_GC_INTERVAL, "GC_INTERVAL", AttributeKind::kBe32},
    {NFTA_SET_USERDATA, "USERDATA", AttributeKind::kBinary, 0, kMaxUserdata},
    {NFTA_SET_OBJ_TYPE, "OBJ_TYPE", AttributeKind::kBe32},
    {NFTA_SET_HANDLE, "HANDLE", AttributeKind::kBe64},
    {NFTA_SET_EXPR, "EXPR", AttributeKind::kExpression},
    {kSetCount, "COUNT", AttributeKind::kBe32},
};
inline constexpr Policy kSetPolicy{"NFTA_SET", kSetRows};

inline constexpr AttributePolicy kCounterRows[] = {
    {NFTA_COUNTER_BYTES, "BYTES", AttributeKind::kBe64},
    {NFTA_COUNTER_PACKETS, "PACKETS", AttributeKind::kBe64},
};
inline constexpr Policy kCounterPolicy{"NFTA_COUNTER", kCounterRows};

/// A named counter: an object of type NFT_OBJECT_COUNTER. The other types have other DATA.
inline constexpr AttributePolicy kNamedCounterRows[] = {
    {NFTA_OBJ_TABLE, "TABLE", AttributeKind::kString, 1, kMaxName},
    {NFTA_OBJ_NAME, "NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_OBJ_TYPE, "TYPE", AttributeKind::kBe32},
    {NFTA_OBJ_DATA, "DATA", AttributeKind::kNested, 0, 0, &kCounterPolicy},
    {NFTA_OBJ_HANDLE, "HANDLE", AttributeKind::kBe64},
};
inline constexpr Policy kNamedCounterPolicy{"NFTA_OBJ", kNamedCounterRows};

inline constexpr AttributePolicy kGenerationRows[] = {
    {NFTA_GEN_ID, "ID", AttributeKind::kBe32},
    {NFTA_GEN_PROC_PID, "PROC_PID", AttributeKind::kBe32},
    {NFTA_GEN_PROC_NAME, "PROC_NAME", AttributeKind::kString, 0, 15},
};
inline constexpr Policy kGenerationPolicy{"NFTA_GEN", kGenerationRows};

inline constexpr AttributePolicy kElementRows[] = {
    {NFTA_SET_ELEM_KEY, "KEY", AttributeKind::kNested, 0, 0, &kDataPolicy},
    {NFTA_SET_ELEM_DATA, "DATA", AttributeKind::kNested, 0, 0, &kDataPolicy},
    {NFTA_SET_ELEM_FLAGS, "FLAGS", AttributeKind::kBe32},
    {NFTA_SET_ELEM_TIMEOUT, "TIMEOUT", AttributeKind::kBe64},
    {NFTA_SET_ELEM_EXPIRATION, "EXPIRATION", AttributeKind::kBe64},
    {NFTA_SET_ELEM_OBJREF, "OBJREF", AttributeKind::kString, 1, kMaxName},
    {NFTA_SET_ELEM_KEY_END, "KEY_END", AttributeKind::kNested, 0, 0, &kDataPolicy},
};
inline constexpr Policy kElementPolicy{"NFTA_SET_ELEM", kElementRows};

inline constexpr AttributePolicy kElementsRows[] = {
    {NFTA_SET_ELEM_LIST_TABLE, "TABLE", AttributeKind::kString, 1, kMaxName},
    {NFTA_SET_ELEM_LIST_SET, "SET", AttributeKind::kString, 1, kMaxName},
    {NFTA_SET_ELEM_LIST_ELEMENTS, "ELEMENTS", AttributeKind::kList, 0, 0, &kElementPolicy},
};
inline constexpr Policy kElementsPolicy{"NFTA_SET_ELEM_LIST", kElementsRows};

/// An expression. `name` is the name under which the kernel registers it.
struct ExpressionPolicy {
  std::string_view name;
  const Policy* policy;
};

/// The expressions that have rows (expression_table.h). A stream names one by its index plus 1.
std::span<const ExpressionPolicy> KnownExpressions();

}  // namespace viaduct::nftables
