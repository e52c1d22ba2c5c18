#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "core/message_builder.h"
#include "core/netlink_socket.h"
#include "core/outcome.h"

namespace viaduct {

/// Sends `count` records in as few system calls as the socket's real buffers allow, without acknowledgements.
/// `encode(builder, sequence, index)` adds a record's message and returns the result of FinishMessage().
/// `buffer` is scratch space, kept between batches.
template <typename Encode>
BatchOutcome SendBatch(NetlinkSocket& socket, std::vector<uint8_t>& buffer, uint32_t count, Encode encode) {
  BatchOutcome outcome;
  buffer.resize(socket.max_send_bytes());
  for (uint32_t next = 0; next < count;) {
    const uint32_t limit = std::min(count - next, socket.max_requests_per_send());
    const uint32_t first_sequence = socket.TakeSequence(limit);
    MessageBuilder builder(buffer);
    uint32_t sent = 0;
    while (sent < limit && encode(builder, first_sequence + sent, next + sent)) ++sent;
    if (sent == 0) {
      // One record alone is larger than the send buffer.
      outcome.failures.push_back({next++, EMSGSIZE, false, {}});
      continue;
    }
    socket.Transact(builder.sealed(), first_sequence, sent, next, outcome);
    next += sent;
  }
  return outcome;
}

/// The same status; its error gets `operation` if it has none.
inline Status Named(Status status, const char* operation) {
  if (!status.ok() && status.error().operation.empty()) status.error().operation = operation;
  return status;
}

}  // namespace viaduct
