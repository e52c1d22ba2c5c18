#pragma once

#include <cstdint>

#include "conntrack/flow.h"
#include "conntrack/record.h"
#include "core/message_builder.h"

// ctnetlink messages. Each function adds one message and returns the result of
// MessageBuilder::FinishMessage(): false if it did not fit. NetlinkSocket sets the sequence of dumps.

namespace viaduct::conntrack {

/// Largest message of these encoders.
inline constexpr size_t kMaxRequestBytes = 256;

/// All flows of a family.
bool EncodeDump(MessageBuilder& builder, uint8_t family);
/// The flows of one frontend, possibly with other flows to its port. A kernel without CTA_FILTER (before 5.8)
/// sends all flows of the family.
bool EncodeFilteredDump(MessageBuilder& builder, uint8_t family, const FrontendRecord& frontend);
/// Whether the flow matches the filter of that dump.
bool IsWithinFilter(const FrontendRecord& frontend, const Flow& flow);
/// NB: always with a tuple: without one the kernel flushes the whole table.
bool EncodeDelete(MessageBuilder& builder, uint32_t sequence, const Flow& flow);

}  // namespace viaduct::conntrack
