#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace viaduct::nftables {

/// The names of a chain and its table. They point into the message.
struct ChainName {
  std::string_view table;
  std::string_view chain;
};

/// Decodes NFT_MSG_NEWCHAIN, the reply of a dump, from the payload after nlmsghdr. Nothing: it is malformed,
/// breaks the policy, or lacks a name.
std::optional<ChainName> DecodeChainName(std::span<const uint8_t> payload);

}  // namespace viaduct::nftables
