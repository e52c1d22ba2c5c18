#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <vector>

#include "core/policy.h"

namespace viaduct {

/// Appends an attribute with a correct length field.
inline void AppendAttribute(std::vector<uint8_t>& message, uint16_t type, const std::vector<uint8_t>& value) {
  const nlattr header{static_cast<uint16_t>(NLA_HDRLEN + value.size()), type};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
  message.insert(message.end(), bytes, bytes + sizeof header);
  message.insert(message.end(), value.begin(), value.end());
  message.resize(NLA_ALIGN(message.size()));
}

/// A size that the row allows, most of the time.
inline size_t ChooseSize(FuzzedDataProvider& input, const AttributePolicy& row) {
  if (input.ConsumeIntegralInRange<int>(0, 15) == 0) return input.ConsumeIntegralInRange<size_t>(0, 20);
  for (const size_t size : {1, 2, 4, 8}) {
    const bool is_fixed = row.kind != AttributeKind::kString && row.kind != AttributeKind::kBinary;
    if (is_fixed && HasRightSize(row, size)) return size;
  }
  return input.ConsumeIntegralInRange<size_t>(row.min_size, row.max_size < 64 ? row.max_size : 64);
}

constexpr size_t kMaxListBytes = 4096;
constexpr uint16_t kListElement = 1;  // NFTA_LIST_ELEM

/// Attributes that follow `policy`, each row present or not. They pass the checks of size and reach the
/// decoders; random bytes alone rarely do.
inline std::vector<uint8_t> MakeAttributes(FuzzedDataProvider& input, const Policy& policy) {
  std::vector<uint8_t> message;
  for (const AttributePolicy& row : policy.rows) {
    if (!input.ConsumeBool()) continue;
    if (row.kind == AttributeKind::kNested) {
      AppendAttribute(message, row.type, MakeAttributes(input, *row.nested));
      continue;
    }
    if (row.kind == AttributeKind::kList) {
      std::vector<uint8_t> items;
      while (items.size() < kMaxListBytes && input.ConsumeBool())
        AppendAttribute(items, kListElement, MakeAttributes(input, *row.nested));
      AppendAttribute(message, row.type, items);
      continue;
    }
    std::vector<uint8_t> value(ChooseSize(input, row));
    const auto bytes = input.ConsumeBytes<uint8_t>(value.size());
    std::copy(bytes.begin(), bytes.end(), value.begin());
    AppendAttribute(message, row.type, value);
  }
  return message;
}

/// A family header of random bytes, then either random bytes or attributes that follow `policy`.
inline std::vector<uint8_t> MakePayload(FuzzedDataProvider& input, size_t header_size, const Policy& policy) {
  const bool is_after_grammar = input.ConsumeBool();
  std::vector<uint8_t> payload = input.ConsumeBytes<uint8_t>(header_size);
  const auto attributes =
      is_after_grammar ? MakeAttributes(input, policy) : input.ConsumeRemainingBytes<uint8_t>();
  payload.insert(payload.end(), attributes.begin(), attributes.end());
  return payload;
}

}  // namespace viaduct
