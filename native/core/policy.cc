#include "core/policy.h"

#include <algorithm>

namespace viaduct {

const AttributePolicy* Policy::Find(uint16_t type) const {
  // Most UAPI enums start at 1 without gaps: the number is the index of the row.
  if (type >= 1 && type <= rows.size() && rows[type - 1].type == type) return &rows[type - 1];
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), type,
                       [](const AttributePolicy& row, uint16_t wanted) { return row.type < wanted; });
  return found != rows.end() && found->type == type ? &*found : nullptr;
}

bool HasRightSize(const AttributePolicy& row, size_t size) {
  switch (row.kind) {
    case AttributeKind::kU8:
      return size == 1;
    case AttributeKind::kU16:
    case AttributeKind::kBe16:
      return size == 2;
    case AttributeKind::kU32:
    case AttributeKind::kBe32:
    case AttributeKind::kRegister:
      return size == 4;
    case AttributeKind::kU64:
    case AttributeKind::kBe64:
      return size == 8;
    case AttributeKind::kString:
      return size >= row.min_size && size <= row.max_size + 1U;
    case AttributeKind::kBinary:
      return size >= row.min_size && size <= row.max_size;
    case AttributeKind::kNested:
    case AttributeKind::kList:
    case AttributeKind::kExpression:
    case AttributeKind::kExpressions:
      return true;
  }
  return false;
}

bool Conforms(const AttributePolicy& row, std::span<const uint8_t> value) {
  if (!HasRightSize(row, value.size())) return false;
  return row.kind != AttributeKind::kNested || row.nested == nullptr || Conforms(*row.nested, value);
}

bool Conforms(const Policy& policy, std::span<const uint8_t> bytes) {
  bool nests_conform = true;
  const bool sizes_conform =
      ForEachAttribute(policy, bytes, [&](const AttributePolicy& row, std::span<const uint8_t> value) {
        nests_conform = nests_conform && Conforms(row, value);
      });
  return sizes_conform && nests_conform;
}

}  // namespace viaduct
