#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace viaduct {

/// A netlink attribute: a view into its message.
struct Attribute {
  uint16_t type = 0;  ///< without NLA_F_NESTED and NLA_F_NET_BYTEORDER
  std::span<const uint8_t> value;
};

/// Walks attributes. Checks every length before use. The last attribute may lack padding.
class AttributeReader {
 public:
  explicit AttributeReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  /// The next attribute; nothing at the end and at the first malformed length (see malformed()).
  std::optional<Attribute> Next() {
    if (rest_.size() < NLA_HDRLEN) {
      malformed_ = malformed_ || !rest_.empty();
      return std::nullopt;
    }
    nlattr header;
    memcpy(&header, rest_.data(), sizeof header);
    if (header.nla_len < NLA_HDRLEN || header.nla_len > rest_.size()) {
      malformed_ = true;
      rest_ = {};
      return std::nullopt;
    }
    const Attribute attribute{static_cast<uint16_t>(header.nla_type & NLA_TYPE_MASK),
                              rest_.subspan(NLA_HDRLEN, header.nla_len - NLA_HDRLEN)};
    const size_t step = NLA_ALIGN(header.nla_len);
    rest_ = step < rest_.size() ? rest_.subspan(step) : std::span<const uint8_t>{};
    return attribute;
  }
  bool malformed() const { return malformed_; }

 private:
  std::span<const uint8_t> rest_;
  bool malformed_ = false;
};

/// Value of a fixed-size attribute or header. A copy, because 64-bit values are not aligned in a message. NB:
/// the caller checks the size (by policy).
template <typename T>
T ReadAs(std::span<const uint8_t> value) {
  static_assert(std::is_trivially_copyable_v<T>);
  T result{};
  memcpy(&result, value.data(), sizeof result);
  return result;
}

}  // namespace viaduct
