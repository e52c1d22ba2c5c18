#pragma once

#include <cstdint>

#include "conntrack/flow.h"
#include "conntrack/record.h"
#include "core/message_builder.h"

// ctnetlink messages. Each function adds one message and returns what MessageBuilder::FinishMessage()
// returned: false means that it did not fit. Dumps get their sequence from NetlinkSocket.

namespace viaduct::conntrack {

/// Largest message that an encoder here makes.
inline constexpr size_t kMaxRequestBytes = 256;

/// All flows of a family.
bool EncodeDump(MessageBuilder& builder, uint8_t family);
/// The flows of one frontend, and perhaps others of its port. A kernel without CTA_FILTER (before 5.8)
/// answers with all of the family.
bool EncodeFilteredDump(MessageBuilder& builder, uint8_t family, const FrontendRecord& frontend);
/// Whether that dump asked for the flow.
bool IsWithinFilter(const FrontendRecord& frontend, const Flow& flow);
/// NB: a deletion is always of one flow: without a tuple the kernel would flush the whole table.
bool EncodeDelete(MessageBuilder& builder, uint32_t sequence, const Flow& flow);

}  // namespace viaduct::conntrack
