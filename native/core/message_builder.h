#pragma once

#include <linux/netlink.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace viaduct {

/// Room for one request on the stack: family headers are written in place.
template <size_t Size>
struct alignas(NLMSG_ALIGNTO) RequestBuffer : std::array<uint8_t, Size> {};

/// Writes netlink messages one after the other into one contiguous buffer. After an overflow every call does
/// nothing until FinishMessage(), which alone reports it and rolls the buffer back to the start of the
/// message. The messages before it can still be sent.
class MessageBuilder {
 public:
  /// NB: `buffer` is aligned to NLMSG_ALIGNTO.
  explicit MessageBuilder(std::span<uint8_t> buffer) : buffer_(buffer) {
    assert(reinterpret_cast<uintptr_t>(buffer.data()) % NLMSG_ALIGNTO == 0);
  }

  /// Opens a message: nlmsghdr plus a zeroed, caller-filled family header of type T.
  template <typename Header>
  Header* BeginMessage(uint16_t type, uint16_t flags, uint32_t sequence) {
    static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) <= sizeof(discarded_header_));
    return reinterpret_cast<Header*>(BeginRaw(type, flags, sequence, sizeof(Header)));
  }
  /// Seals the open message. False: it did not fit; the buffer is as it was before BeginMessage().
  bool FinishMessage();

  void U8(uint16_t type, uint8_t value) { Put(type, &value, sizeof value); }
  void U16(uint16_t type, uint16_t value) { Put(type, &value, sizeof value); }
  void U32(uint16_t type, uint32_t value) { Put(type, &value, sizeof value); }
  void Bytes(uint16_t type, std::span<const uint8_t> value) { Put(type, value.data(), value.size()); }
  /// NUL-terminated string attribute.
  void String(uint16_t type, std::string_view value);
  /// `type` is sent unchanged: add NLA_F_NESTED if the family needs it (IPVS does not).
  template <typename Body>
  void Nest(uint16_t type, Body body) {
    const size_t start = BeginNest(type);
    body();
    EndNest(start);
  }

  size_t size() const { return sealed_; }
  /// Bytes of the open message, and the remaining room. NB: not valid after an overflow.
  size_t open_size() const { return used_ - sealed_; }
  size_t room() const { return buffer_.size() - used_; }
  std::span<const uint8_t> sealed() const { return buffer_.first(sealed_); }
  void Clear() { used_ = sealed_ = 0, overflow_ = false; }

 private:
  uint8_t* BeginRaw(uint16_t type, uint16_t flags, uint32_t sequence, size_t header_size);
  uint8_t* Reserve(size_t size);
  void Put(uint16_t type, const void* data, size_t size);
  size_t BeginNest(uint16_t type);
  void EndNest(size_t start);

  std::span<uint8_t> buffer_;
  alignas(8) uint8_t discarded_header_[64] = {};  ///< target of the caller's family header after an overflow
  size_t used_ = 0;                               ///< end of the written bytes, the open message included
  size_t sealed_ = 0;                             ///< end of the last finished message
  bool overflow_ = false;
};

}  // namespace viaduct
