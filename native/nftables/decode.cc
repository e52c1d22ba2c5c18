#include "nftables/decode.h"

#include <linux/netfilter/nfnetlink.h>

#include "nftables/policy.h"

namespace viaduct::nftables {

std::optional<ChainName> DecodeChainName(std::span<const uint8_t> payload) {
  constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(nfgenmsg));
  AttributeTable<NFTA_CHAIN_NAME> attributes;
  if (payload.size() < kHeaderSize || !attributes.Parse(payload.subspan(kHeaderSize), kChainPolicy))
    return std::nullopt;
  const ChainName name{attributes.Text(NFTA_CHAIN_TABLE), attributes.Text(NFTA_CHAIN_NAME)};
  if (name.table.empty() || name.chain.empty()) return std::nullopt;
  return name;
}

}  // namespace viaduct::nftables
