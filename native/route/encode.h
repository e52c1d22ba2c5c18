#pragma once

#include <cstdint>
#include <string_view>

#include "core/message_builder.h"
#include "route/record.h"

// Records to rtnetlink messages. Each function adds one message and returns what
// MessageBuilder::FinishMessage() returned: false means that it did not fit. Requests and dumps get their
// sequence from NetlinkSocket.

namespace viaduct::route {

/// Largest message that an encoder here makes.
inline constexpr size_t kMaxRequestBytes = 256;

bool EncodeRoute(MessageBuilder& builder, uint32_t sequence, const RouteRecord& route);
bool EncodeAddress(MessageBuilder& builder, uint32_t sequence, const AddressRecord& address);

/// Routes of type local in table local.
bool EncodeDumpLocalRoutes(MessageBuilder& builder, uint8_t family);
/// `interface_index` 0: of all.
bool EncodeDumpAddresses(MessageBuilder& builder, uint8_t family, uint32_t interface_index);
bool EncodeDumpLinks(MessageBuilder& builder);

/// NB: a name of 16 characters or more is refused by the kernel (ERANGE).
bool EncodeAddDummy(MessageBuilder& builder, std::string_view name);
bool EncodeFindLink(MessageBuilder& builder, std::string_view name);
bool EncodeSetUp(MessageBuilder& builder, uint32_t interface_index);
bool EncodeRemoveLink(MessageBuilder& builder, uint32_t interface_index);

}  // namespace viaduct::route
