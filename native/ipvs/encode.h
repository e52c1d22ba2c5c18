#pragma once

#include <cstdint>

#include "core/message_builder.h"
#include "ipvs/ipvs_socket.h"
#include "ipvs/record.h"

// Encodes records as messages of the IPVS generic netlink family. Each function adds one message and returns
// the result of MessageBuilder::FinishMessage(): false if it did not fit.

namespace viaduct::ipvs {

/// Family and sequence number of a message.
struct Envelope {
  uint16_t family_id = 0;
  uint32_t sequence = 0;
};

/// Largest message that EncodeOperation() makes: 20 bytes of headers, a full SERVICE nest, a full DEST nest.
inline constexpr size_t kMaxOperationBytes = 256;

/// One operation of a batch.
bool EncodeOperation(MessageBuilder& builder, const Envelope& envelope, const Batch& batch,
                     const OpRecord& op);

/// CTRL_CMD_GETFAMILY for "IPVS".
bool EncodeFindFamily(MessageBuilder& builder);
/// IPVS_CMD_GET_SERVICE of all services. NetlinkSocket::Dump() adds the dump flag.
bool EncodeDumpServices(MessageBuilder& builder, uint16_t family_id);
/// IPVS_CMD_GET_SERVICE of one service.
bool EncodeGetService(MessageBuilder& builder, uint16_t family_id, const VirtualServerRecord& server);
/// IPVS_CMD_GET_DEST of one service.
bool EncodeDumpDestinations(MessageBuilder& builder, uint16_t family_id, const VirtualServerRecord& server);
/// IPVS_CMD_GET_CONFIG.
bool EncodeGetTimeouts(MessageBuilder& builder, uint16_t family_id);
/// IPVS_CMD_SET_CONFIG.
bool EncodeSetTimeouts(MessageBuilder& builder, uint16_t family_id, const Timeouts& timeouts);

}  // namespace viaduct::ipvs
