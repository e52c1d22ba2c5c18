#pragma once

#include <cstdint>
#include <string_view>

#include "core/message_builder.h"
#include "route/record.h"

// Encodes records as rtnetlink messages. Each function adds one message and returns the result of
// MessageBuilder::FinishMessage(): false if it did not fit. NetlinkSocket sets the sequence of requests and
// dumps.

namespace viaduct::route {

/// Largest message of these encoders.
inline constexpr size_t kMaxRequestBytes = 256;

bool EncodeRoute(MessageBuilder& builder, uint32_t sequence, const RouteRecord& route);
bool EncodeAddress(MessageBuilder& builder, uint32_t sequence, const AddressRecord& address);

/// The route of one packet.
bool EncodeGetRoute(MessageBuilder& builder, const RouteQueryRecord& query);
/// Routes of type local in table local.
bool EncodeDumpLocalRoutes(MessageBuilder& builder, uint8_t family);
/// Routes of type unicast in all tables.
bool EncodeDumpUnicastRoutes(MessageBuilder& builder, uint8_t family);
/// `interface_index` 0: all interfaces.
bool EncodeDumpAddresses(MessageBuilder& builder, uint8_t family, uint32_t interface_index);
bool EncodeDumpLinks(MessageBuilder& builder);
/// Policy routing rules.
bool EncodeDumpRules(MessageBuilder& builder, uint8_t family);

/// NB: the kernel refuses a name of 16 characters or more (ERANGE).
bool EncodeAddDummy(MessageBuilder& builder, std::string_view name);
bool EncodeFindLink(MessageBuilder& builder, std::string_view name);
bool EncodeSetUp(MessageBuilder& builder, uint32_t interface_index);
bool EncodeRemoveLink(MessageBuilder& builder, uint32_t interface_index);

}  // namespace viaduct::route
