#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace viaduct {

/// Whether VIADUCT_NLDEBUG=1 was set when the first message was sent or received.
bool IsDebugging();

/// A datagram in the layout of libmnl's mnl_nlmsg_fprintf: header fields, then four bytes per line in hex
/// with their text, one block per message.
std::string FormatMessages(std::span<const uint8_t> datagram);

/// Writes FormatMessages() to stderr with "sent" or "received" before it, if IsDebugging().
void DebugMessages(const char* direction, std::span<const uint8_t> datagram);

}  // namespace viaduct
