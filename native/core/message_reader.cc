#include "core/message_reader.h"

#include <cstring>
#include <limits>

#include "core/attribute_reader.h"
#include "core/policy.h"

namespace viaduct {

namespace {

constexpr AttributePolicy kExtendedAckRows[] = {
    {NLMSGERR_ATTR_MSG, "MSG", AttributeKind::kString, 0, 65531},
    {NLMSGERR_ATTR_OFFS, "OFFS", AttributeKind::kU32},
};
constexpr Policy kExtendedAckPolicy{"NLMSGERR_ATTR", kExtendedAckRows};

void ReadExtendedAck(std::span<const uint8_t> bytes, ErrorReport& report) {
  AttributeTable<NLMSGERR_ATTR_OFFS> attributes;
  if (!attributes.Parse(bytes, kExtendedAckPolicy)) return;
  report.text = attributes.Text(NLMSGERR_ATTR_MSG);
  report.offset = attributes.Number<uint32_t>(NLMSGERR_ATTR_OFFS);
}

/// The kernel writes -errno. Other values become EPROTO.
int PositiveErrno(int32_t error) {
  if (error == 0) return 0;
  return error < 0 && error != std::numeric_limits<int32_t>::min() ? -error : EPROTO;
}

}  // namespace

std::optional<Message> MessageReader::Next() {
  if (rest_.size() < NLMSG_HDRLEN) {
    malformed_ = malformed_ || !rest_.empty();
    return std::nullopt;
  }
  Message message{ReadAs<nlmsghdr>(rest_), {}};
  const size_t length = message.header.nlmsg_len;
  if (length < NLMSG_HDRLEN || length > rest_.size()) {
    malformed_ = true;
    rest_ = {};
    return std::nullopt;
  }
  message.payload = rest_.subspan(NLMSG_HDRLEN, length - NLMSG_HDRLEN);
  const size_t step = NLMSG_ALIGN(length);
  rest_ = step < rest_.size() ? rest_.subspan(step) : std::span<const uint8_t>{};
  return message;
}

std::optional<ErrorReport> DecodeError(const Message& message) {
  if (message.payload.size() < sizeof(nlmsgerr)) return std::nullopt;
  const auto fixed = ReadAs<nlmsgerr>(message.payload);
  ErrorReport report{PositiveErrno(fixed.error), {}};
  size_t attributes = sizeof(nlmsgerr);
  if ((message.header.nlmsg_flags & NLM_F_CAPPED) == 0) {
    const size_t echoed = fixed.msg.nlmsg_len;
    const size_t room = message.payload.size() - sizeof(nlmsgerr::error);
    if (echoed < NLMSG_HDRLEN || echoed > room) return report;
    report.request = message.payload.subspan(sizeof(nlmsgerr), echoed - NLMSG_HDRLEN);
    attributes = sizeof(nlmsgerr::error) + NLMSG_ALIGN(echoed);
  }
  if ((message.header.nlmsg_flags & NLM_F_ACK_TLVS) == 0) return report;
  if (attributes < message.payload.size()) ReadExtendedAck(message.payload.subspan(attributes), report);
  return report;
}

std::optional<ErrorReport> DecodeDone(const Message& message) {
  if (message.payload.size() < sizeof(int32_t)) return ErrorReport{};
  ErrorReport report{PositiveErrno(ReadAs<int32_t>(message.payload)), {}};
  if ((message.header.nlmsg_flags & NLM_F_ACK_TLVS) != 0)
    ReadExtendedAck(message.payload.subspan(sizeof(int32_t)), report);
  return report;
}

}  // namespace viaduct
