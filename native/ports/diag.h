#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/message_builder.h"
#include "ports/record.h"

// Messages of NETLINK_SOCK_DIAG about listening sockets: linux/inet_diag.h.

namespace viaduct::ports {

/// The most ports that a request filters in the kernel. The kernel's check of a filter takes time by the
/// square of its length.
inline constexpr size_t kMaxFilteredPorts = 128;

/// Largest message of EncodeDumpListeners().
inline constexpr size_t kMaxDiagBytes = 128 + kMaxFilteredPorts * 20;

/// Listening TCP sockets, or UDP sockets that take datagrams from any sender. `ports`, ascending, at most
/// kMaxFilteredPorts: those that the kernel sends; empty: all.
bool EncodeDumpListeners(MessageBuilder& builder, uint8_t family, uint8_t protocol,
                         std::span<const uint16_t> ports);

/// A listening socket as the kernel describes it.
struct DiagSocket {
  ListenerRecord listener;  ///< without process
  uint32_t inode = 0;
  bool is_dual_stack = false;  ///< an IPv6 socket on every address that takes IPv4 too
};

/// Nothing: malformed.
std::optional<DiagSocket> DecodeListener(std::span<const uint8_t> payload, uint8_t protocol);

}  // namespace viaduct::ports
