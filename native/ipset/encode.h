#pragma once

#include <cstdint>
#include <string_view>

#include "core/message_builder.h"
#include "ipset/record.h"

// Encodes records as messages of ipset over nfnetlink. A function that adds one message returns the result of
// MessageBuilder::FinishMessage(): false if it did not fit.

namespace viaduct::ipset {

/// The fields of every message.
struct Envelope {
  uint8_t protocol = 0;
  uint32_t sequence = 0;
};

/// Largest entry, with comment, and largest message that is not packed.
inline constexpr size_t kMaxEntryBytes = 400;
inline constexpr size_t kMaxRequestBytes = 512;
/// Largest message of entries: an attribute holds 65,535 bytes, and an error returns all of them.
inline constexpr size_t kMaxPackedBytes = 60'000;

/// PROTOCOL, in the version of our headers.
bool EncodeProtocol(MessageBuilder& builder);
/// TYPE with the set's type and family.
bool EncodeFindType(MessageBuilder& builder, uint8_t protocol, const SetRecord& set);
/// CREATE, which accepts an equal set.
bool EncodeCreate(MessageBuilder& builder, uint8_t protocol, const SetRecord& set, uint8_t revision);
/// HEADER of a set.
bool EncodeHeader(MessageBuilder& builder, uint8_t protocol, std::string_view name);
/// LIST of all sets without their entries. NetlinkSocket::Dump() adds the dump flag.
bool EncodeListSets(MessageBuilder& builder, uint8_t protocol);
/// LIST of one set.
bool EncodeListEntries(MessageBuilder& builder, uint8_t protocol, std::string_view name);

/// Any operation except kCreateSet. A message has one entry.
bool EncodeOperation(MessageBuilder& builder, const Envelope& envelope, const Batch& batch,
                     const OpRecord& op);
/// One message with entries from `first`: those of the same set and operation that fit. Returns their number;
/// 0: no room. The line number of each entry is the index of its operation plus 1.
uint32_t EncodeEntries(MessageBuilder& builder, const Envelope& envelope, const Batch& batch, uint32_t first);

}  // namespace viaduct::ipset
