#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/message_builder.h"
#include "nftables/policy.h"
#include "nftables/stream.h"

namespace viaduct::nftables {

// An object in a stream is a u32 whose bit i means that row i of its policy is present, then the values of
// those rows in order. A number is a u32, or a u64 if it has 64 bits. A list is a u32 count and its objects.
// A register is the index of its first four-byte word among the sixteen, or kVerdictRegister. An expression
// is a u32, its index in KnownExpressions() plus 1, then its object. An unknown expression is u32 0, its
// name, and its attributes as bytes.

/// The verdict register. The data registers are 0 to 15.
inline constexpr uint32_t kVerdictRegister = 16;

/// Adds the attributes of one object to the open message. Fails the reader if the stream breaks the policy.
void PutObject(MessageBuilder& builder, const Policy& policy, StreamReader& stream);

/// Appends the object with these attributes. False: they are malformed or break the policy; nothing was
/// appended.
bool ReadObject(std::span<const uint8_t> attributes, const Policy& policy, StreamWriter& stream);

/// The kinds of the rows of every object and expression, one line each: "chain: text u64 text {u32 u32} ...".
std::string DescribeGrammar();

}  // namespace viaduct::nftables
