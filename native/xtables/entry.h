#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "xtables/shape.h"

namespace viaduct::xtables {

template <typename T>
T Load(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void Store(uint8_t* at, const T& value) {
  memcpy(at, &value, sizeof value);
}

/// Entries, matches and targets begin at multiples of this.
inline constexpr size_t kAlignment = 8;
constexpr size_t Align(size_t size) { return (size + kAlignment - 1) & ~(kAlignment - 1); }

/// Header of a match or target, as user space sees it: u16 size, name[29], u8 revision.
inline constexpr size_t kExtensionHeader = sizeof(xt_entry_target);
inline constexpr size_t kExtensionName = offsetof(xt_entry_target, u.user.name);
inline constexpr size_t kExtensionRevision = offsetof(xt_entry_target, u.user.revision);
static_assert(kExtensionHeader == 32 && kExtensionName == 2 && kExtensionRevision == 31);

inline constexpr size_t kStandardTarget = Align(sizeof(xt_standard_target));
inline constexpr size_t kErrorTarget = Align(sizeof(xt_error_target));
static_assert(kStandardTarget == 40 && kErrorTarget == 64);

/// Longest name of a chain that the iptables tools accept. The kernel accepts one byte more.
inline constexpr size_t kChainName = XT_EXTENSION_MAXNAMELEN - 1;
static_assert(kChainName == 28);

/// Verdicts of a standard target. Other values are offsets of jumps.
inline constexpr int32_t kDropVerdict = -NF_DROP - 1;
inline constexpr int32_t kAcceptVerdict = -NF_ACCEPT - 1;
inline constexpr int32_t kReturnVerdict = XT_RETURN;

/// One entry of a table: a view over bytes that were checked (EntryView::Check) or built by EntryBuilder.
class EntryView {
 public:
  EntryView(const Shape& shape, const uint8_t* bytes) : shape_(&shape), bytes_(bytes) {}

  /// Whether `table` has a complete entry with a target at `offset`.
  static bool Check(const Shape& shape, std::span<const uint8_t> table, size_t offset);

  const uint8_t* bytes() const { return bytes_; }
  uint16_t target_offset() const { return Load<uint16_t>(bytes_ + shape_->target_offset); }
  /// Size of the entry.
  uint16_t size() const { return Load<uint16_t>(bytes_ + shape_->target_offset + sizeof(uint16_t)); }
  /// Packets and bytes that matched the entry.
  xt_counters counters() const { return Load<xt_counters>(bytes_ + shape_->counters); }
  /// Offset of the verdict in the entry, if it has a standard target.
  std::optional<uint32_t> VerdictOffset() const;
  /// The name in an ERROR entry; nothing for other entries.
  std::optional<std::string_view> ErrorName() const;

 private:
  const Shape* shape_;
  const uint8_t* bytes_;
};

inline bool EntryView::Check(const Shape& shape, std::span<const uint8_t> table, size_t offset) {
  if (offset > table.size() || table.size() - offset < shape.header + kExtensionHeader) return false;
  const EntryView entry(shape, table.data() + offset);
  const size_t target = entry.target_offset();
  const size_t size = entry.size();
  if (size % kAlignment != 0 || size > table.size() - offset) return false;
  if (target < shape.header || target + kExtensionHeader > size) return false;
  const size_t target_size = Load<uint16_t>(entry.bytes() + target);
  return target_size >= kExtensionHeader && target + target_size <= size;
}

inline std::optional<uint32_t> EntryView::VerdictOffset() const {
  const uint32_t target = target_offset();
  const bool is_standard = bytes_[target + kExtensionName] == 0 && target + kStandardTarget <= size_t{size()};
  if (!is_standard) return std::nullopt;
  return target + static_cast<uint32_t>(offsetof(xt_standard_target, verdict));
}

inline std::optional<std::string_view> EntryView::ErrorName() const {
  const size_t target = target_offset();
  const uint8_t* name = bytes_ + target + kExtensionName;
  if (memcmp(name, XT_ERROR_TARGET, sizeof XT_ERROR_TARGET) != 0) return std::nullopt;
  if (target + sizeof(xt_error_target) > size()) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(bytes_) + target + offsetof(xt_error_target, errorname);
  return std::string_view(text, strnlen(text, XT_FUNCTION_MAXNAMELEN));
}

/// Whether two entries of the same size are equal, without counters, the kernel's scratch fields and the four
/// bytes at `verdict` (0: none).
inline bool IsSameEntry(const Shape& shape, const uint8_t* one, const uint8_t* other, size_t size,
                        size_t verdict) {
  if (memcmp(one, other, shape.comefrom) != 0) return false;
  if (verdict == 0) return memcmp(one + shape.header, other + shape.header, size - shape.header) == 0;
  const size_t rest = verdict + sizeof(int32_t);
  return memcmp(one + shape.header, other + shape.header, verdict - shape.header) == 0 &&
         memcmp(one + rest, other + rest, size - rest) == 0;
}

}  // namespace viaduct::xtables
