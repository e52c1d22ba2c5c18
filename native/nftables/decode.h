#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace viaduct::nftables {

/// Points into the message.
struct ChainName {
  std::string_view table;
  std::string_view chain;
};

/// NFT_MSG_NEWCHAIN, the reply of a dump, after nlmsghdr. Nothing: malformed, breaks the policy, or without a
/// name.
std::optional<ChainName> DecodeChainName(std::span<const uint8_t> payload);

}  // namespace viaduct::nftables
