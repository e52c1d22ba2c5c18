#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace viaduct {

/// One netlink message: a view into its datagram.
struct Message {
  nlmsghdr header;
  std::span<const uint8_t> payload;
};

/// Walks the messages of one datagram. The length of the last one need not be aligned.
class MessageReader {
 public:
  explicit MessageReader(std::span<const uint8_t> datagram) : rest_(datagram) {}
  /// The next message; nothing at the end and at the first malformed length (see malformed()).
  std::optional<Message> Next();
  bool malformed() const { return malformed_; }

 private:
  std::span<const uint8_t> rest_;
  bool malformed_ = false;
};

/// The content of an NLMSG_ERROR.
struct ErrorReport {
  int code = 0;      ///< errno, positive; 0 is an acknowledgement
  std::string text;  ///< the extended ACK's message, or empty
  /// The refused message without its nlmsghdr, if the kernel returns it; otherwise empty. A view into the
  /// message.
  std::span<const uint8_t> request = {};
  /// Offset of the attribute that the kernel refuses, from the start of the refused message's nlmsghdr. 0:
  /// the kernel names no attribute.
  uint32_t offset = 0;
};

/// Decodes NLMSG_ERROR {s32 error; nlmsghdr of the request; its payload unless NLM_F_CAPPED; extended-ACK
/// attributes if NLM_F_ACK_TLVS}. Nothing: shorter than the fixed part. With malformed attributes only the
/// text is missing.
std::optional<ErrorReport> DecodeError(const Message& message);

/// Decodes the s32 errno of NLMSG_DONE, positive; 0 when it carries none. Always a value: optional only to
/// match DecodeError().
std::optional<ErrorReport> DecodeDone(const Message& message);

}  // namespace viaduct
