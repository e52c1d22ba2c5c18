#pragma once

#include <endian.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/attribute_reader.h"

namespace viaduct {

/// The kind of an attribute. It determines the size, except for strings and binaries.
enum class AttributeKind : uint8_t {
  kU8,
  kU16,     ///< host order
  kU32,     ///< host order
  kU64,     ///< host order, not aligned
  kBe16,    ///< network order
  kBe32,    ///< network order
  kBe64,    ///< network order, not aligned
  kString,  ///< with or without the final NUL
  kBinary,
  kNested,
  kList,         ///< nest of attributes of one type, each a nest of the rows of `nested`
  kRegister,     ///< a Be32: register of nf_tables
  kExpression,   ///< nest that holds an nf_tables expression: its name and its attributes
  kExpressions,  ///< nest of attributes of one type, each a kExpression
};

struct Policy;

/// One row of a policy: the format of one attribute.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a row reads in this order, and there are few
struct AttributePolicy {
  uint16_t type;
  std::string_view name;  ///< as in the UAPI header, without the common prefix
  AttributeKind kind;
  uint16_t min_size = 0;  ///< strings (without NUL) and binaries only
  uint16_t max_size = 0;
  const Policy* nested = nullptr;  ///< kNested, kList: the rows inside
};

/// Attribute grammar of one nest. Rows ascend by type. Types without a row are skipped, because newer kernels
/// send more.
struct Policy {
  std::string_view name;  ///< the common prefix, e.g. IPVS_SVC_ATTR
  std::span<const AttributePolicy> rows;

  const AttributePolicy* Find(uint16_t type) const;
};

/// Whether `value` has the size of `row`. Checks nests recursively.
bool Conforms(const AttributePolicy& row, std::span<const uint8_t> value);
/// Whether `bytes` are well-formed attributes that conform to the policy.
bool Conforms(const Policy& policy, std::span<const uint8_t> bytes);

/// Calls `visit(row, value)` for every attribute of the policy. False at the first malformed or
/// non-conforming one. Does not check inside nests.
template <typename Visit>
bool ForEachAttribute(const Policy& policy, std::span<const uint8_t> bytes, Visit visit);
/// Checks only the size, not inside nests.
bool HasRightSize(const AttributePolicy& row, size_t size);

/// The attributes of one nest, by type, up to kMax. The last one of repeated attributes wins, as in the
/// kernel.
template <size_t kMax>
class AttributeTable {
 public:
  /// False: malformed, or an attribute breaks the policy; the table is unusable then.
  bool Parse(std::span<const uint8_t> bytes, const Policy& policy) {
    return ForEachAttribute(policy, bytes,
                            [this](const AttributePolicy& row, std::span<const uint8_t> value) {
                              if (row.type <= kMax) values_[row.type] = {value, true};
                            });
  }

  bool Has(uint16_t type) const { return values_[type].present; }
  /// Empty when absent.
  std::span<const uint8_t> Bytes(uint16_t type) const { return values_[type].value; }
  std::string_view Text(uint16_t type) const {
    const auto value = Bytes(type);
    const auto* text = reinterpret_cast<const char*>(value.data());
    return value.empty() ? std::string_view{} : std::string_view{text, strnlen(text, value.size())};
  }
  /// `fallback` when absent. NB: T must have the size of the attribute's kind.
  template <typename T>
  T Number(uint16_t type, T fallback = 0) const {
    return Has(type) ? ReadAs<T>(Bytes(type)) : fallback;
  }
  /// A kBe16 in host order.
  uint16_t Port(uint16_t type) const { return be16toh(Number<uint16_t>(type)); }

 private:
  struct Slot {
    std::span<const uint8_t> value;
    bool present = false;
  };
  std::array<Slot, kMax + 1> values_{};
};

template <typename Visit>
bool ForEachAttribute(const Policy& policy, std::span<const uint8_t> bytes, Visit visit) {
  AttributeReader reader(bytes);
  while (const auto attribute = reader.Next()) {
    const AttributePolicy* row = policy.Find(attribute->type);
    if (row == nullptr) continue;
    if (!HasRightSize(*row, attribute->value.size())) return false;
    visit(*row, attribute->value);
  }
  return !reader.malformed();
}

}  // namespace viaduct
