#pragma once

#include <cstdint>
#include <string_view>

#include "core/message_builder.h"
#include "ipset/record.h"

// Records to messages of ipset over nfnetlink. A function that adds one message returns what
// MessageBuilder::FinishMessage() returned: false means that it did not fit.

namespace viaduct::ipset {

/// What every message bears.
struct Envelope {
  uint8_t protocol = 0;
  uint32_t sequence = 0;
};

/// Largest entry with everything that one may have, comment included, and largest message but a packed one.
inline constexpr size_t kMaxEntryBytes = 400;
inline constexpr size_t kMaxRequestBytes = 512;
/// Of a message of entries: an attribute holds 65,535 bytes, and an error sends them all back.
inline constexpr size_t kMaxPackedBytes = 60'000;

/// PROTOCOL, in the version of our headers.
bool EncodeProtocol(MessageBuilder& builder);
/// TYPE of the set's type and family.
bool EncodeFindType(MessageBuilder& builder, uint8_t protocol, const SetRecord& set);
/// CREATE, which is content with an equal set.
bool EncodeCreate(MessageBuilder& builder, uint8_t protocol, const SetRecord& set, uint8_t revision);
/// HEADER of a set.
bool EncodeHeader(MessageBuilder& builder, uint8_t protocol, std::string_view name);
/// LIST of all sets without their entries; a dump is asked for by flag, by NetlinkSocket::Dump().
bool EncodeListSets(MessageBuilder& builder, uint8_t protocol);
/// LIST of one set.
bool EncodeListEntries(MessageBuilder& builder, uint8_t protocol, std::string_view name);

/// Any operation but kCreateSet; an entry goes alone.
bool EncodeOperation(MessageBuilder& builder, const Envelope& envelope, const Batch& batch,
                     const OpRecord& op);
/// One message of entries from `first` on, as many as belong to one set and one operation and fit. Returns
/// how many; 0: there is no room. The line number of each is the index of its operation plus 1.
uint32_t EncodeEntries(MessageBuilder& builder, const Envelope& envelope, const Batch& batch, uint32_t first);

}  // namespace viaduct::ipset
