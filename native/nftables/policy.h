#pragma once

#include <linux/netfilter/nf_tables.h>

#include "core/policy.h"

// Attribute grammar of the nf_tables messages that Viaduct uses: linux/netfilter/nf_tables.h. Only attributes
// that Viaduct reads; the kernel sends many more.

namespace viaduct::nftables {

inline constexpr AttributePolicy kChainRows[] = {
    {NFTA_CHAIN_TABLE, "TABLE", AttributeKind::kString, 1, NFT_NAME_MAXLEN - 1},
    {NFTA_CHAIN_NAME, "NAME", AttributeKind::kString, 1, NFT_NAME_MAXLEN - 1},
};
inline constexpr Policy kChainPolicy{"NFTA_CHAIN", kChainRows};

}  // namespace viaduct::nftables
