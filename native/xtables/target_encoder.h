#pragma once

#include "xtables/entry_builder.h"
#include "xtables/extensions.h"
#include "xtables/record.h"

namespace viaduct::xtables {

/// Ends the entry with a verdict. Returns its buffer offset.
size_t SetVerdict(int32_t verdict, EntryBuilder& entry);
void SetMark(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void SetDnat(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void SetMasquerade(const Shape& shape, const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void SetReject(const Shape& shape, uint8_t revision, EntryBuilder& entry);
/// Takes the packet's mark from the set's entry. Without an entry the mark stays.
void SetMapMark(const RuleRecord& rule, uint16_t index, uint8_t revision, EntryBuilder& entry);

}  // namespace viaduct::xtables
