#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/message_builder.h"
#include "nftables/policy.h"
#include "nftables/stream.h"

namespace viaduct::nftables {

// An object in a stream: a u32 whose bit i says that row i of its policy is present, then the values of those
// rows in order. Numbers of all sizes but 64 bits are a u32; a list is a u32 count and its objects; a
// register is the place of its first four-byte word among the sixteen, or kVerdictRegister. An expression is
// a u32, its place in KnownExpressions() counted from 1, then its object; or 0, then its name and its
// attributes as bytes.

/// Register of a verdict. The data registers are 0 to 15.
inline constexpr uint32_t kVerdictRegister = 16;

/// Adds the attributes of one object to the open message. A stream that does not fit the policy fails the
/// reader.
void PutObject(MessageBuilder& builder, const Policy& policy, StreamReader& stream);

/// Appends the object that the attributes describe. False: malformed, or not as the policy says; nothing was
/// appended.
bool ReadObject(std::span<const uint8_t> attributes, const Policy& policy, StreamWriter& stream);

/// Every policy and expression with the kinds of its rows, one per line: "chain: text u64 text {u32 u32}
/// ...".
std::string DescribeGrammar();

}  // namespace viaduct::nftables
