#include "core/message_builder.h"

#include <limits>

namespace viaduct {

namespace {
constexpr size_t kMaxAttribute = std::numeric_limits<decltype(nlattr::nla_len)>::max();
}  // namespace

uint8_t* MessageBuilder::Reserve(size_t size) {
  const size_t aligned = NLMSG_ALIGN(size);
  if (overflow_ || aligned < size || aligned > buffer_.size() - used_) {
    overflow_ = true;
    return nullptr;
  }
  uint8_t* start = buffer_.data() + used_;
  memset(start, 0, aligned);
  used_ += aligned;
  return start;
}

uint8_t* MessageBuilder::BeginRaw(uint16_t type, uint16_t flags, uint32_t sequence, size_t header_size) {
  used_ = sealed_;
  overflow_ = false;
  uint8_t* start = Reserve(NLMSG_HDRLEN + header_size);
  if (start == nullptr) {
    memset(discarded_header_, 0, sizeof discarded_header_);
    return discarded_header_;
  }
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags = flags;
  header.nlmsg_seq = sequence;
  memcpy(start, &header, sizeof header);
  return start + NLMSG_HDRLEN;
}

bool MessageBuilder::FinishMessage() {
  if (overflow_) {
    used_ = sealed_;
    overflow_ = false;
    return false;
  }
  const auto length = static_cast<uint32_t>(used_ - sealed_);
  memcpy(buffer_.data() + sealed_ + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
  sealed_ = used_;
  return true;
}

void MessageBuilder::Put(uint16_t type, const void* data, size_t size) {
  const size_t length = NLA_HDRLEN + size;
  if (length > kMaxAttribute) overflow_ = true;
  uint8_t* start = Reserve(length);
  if (start == nullptr) return;
  const nlattr attribute{static_cast<uint16_t>(length), type};
  memcpy(start, &attribute, sizeof attribute);
  if (size > 0) memcpy(start + NLA_HDRLEN, data, size);
}

void MessageBuilder::String(uint16_t type, std::string_view value) {
  const size_t length = NLA_HDRLEN + value.size() + 1;
  if (length > kMaxAttribute) overflow_ = true;
  uint8_t* start = Reserve(length);
  if (start == nullptr) return;
  const nlattr attribute{static_cast<uint16_t>(length), type};
  memcpy(start, &attribute, sizeof attribute);
  value.copy(reinterpret_cast<char*>(start + NLA_HDRLEN), value.size());
}

size_t MessageBuilder::BeginNest(uint16_t type) {
  const size_t start = used_;
  Put(type, nullptr, 0);
  return start;
}

void MessageBuilder::EndNest(size_t start) {
  if (overflow_) return;
  const size_t length = used_ - start;
  if (length > kMaxAttribute) {
    overflow_ = true;
    return;
  }
  const auto header_length = static_cast<uint16_t>(length);
  memcpy(buffer_.data() + start + offsetof(nlattr, nla_len), &header_length, sizeof header_length);
}

}  // namespace viaduct
