#pragma once

#include "core/result.h"
#include "xtables/entry_builder.h"
#include "xtables/extensions.h"
#include "xtables/record.h"

namespace viaduct::xtables {

// Each function adds one match of the rule in the kernel's revision. Sources: the structures of the xt_*.h
// headers; net/netfilter/xt_*.c checkentry.

/// Ports. `extension` belongs to the rule's protocol.
void AddPorts(const RuleRecord& rule, Extension extension, EntryBuilder& entry);
void AddMark(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void AddState(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
/// The packet makes the connection: conntrack enters it after the packet has passed all hooks.
void AddUnconfirmed(uint8_t revision, EntryBuilder& entry);
void AddAddressType(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void AddSet(const RuleRecord& rule, uint16_t index, uint8_t revision, EntryBuilder& entry);
/// A classic BPF program: the packet's source equals its destination.
void AddSourceDestination(const Shape& shape, uint8_t revision, EntryBuilder& entry);
void AddStatistic(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry);
void AddRecent(const RuleRecord& rule, std::string_view list, uint8_t revision, EntryBuilder& entry);
void AddComment(std::string_view comment, uint8_t revision, EntryBuilder& entry);

/// Longest texts.
inline constexpr size_t kComment = 255;
inline constexpr size_t kRecentList = 199;

}  // namespace viaduct::xtables
