#pragma once

#include "xtables/entry_builder.h"
#include "xtables/extensions.h"
#include "xtables/record.h"

namespace viaduct::xtables {

/// Ends the entry with a verdict; hands back where in the buffer it lies.
size_t SetVerdict(int32_t verdict, EntryBuilder& entry);
void SetMark(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void SetDnat(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void SetMasquerade(const Shape& shape, const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void SetReject(const Shape& shape, uint8_t revision, EntryBuilder& entry);
/// The packet gets the mark of the set's entry; without an entry it keeps its own.
void SetMapMark(const RuleRecord& rule, uint16_t index, uint8_t revision, EntryBuilder& entry);

}  // namespace viaduct::xtables
