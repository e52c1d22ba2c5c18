#include "xtables/match_request.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>

#include "core/message_builder.h"

namespace viaduct::xtables {

// linux/netfilter/nf_tables_compat.h NFNL_MSG_COMPAT_GET: nfnl_compat_get_rcu() of
// net/netfilter/nft_compat.c.
Status RequestMatch(NetlinkSocket& socket, uint8_t family, std::string_view name) {
  constexpr uint32_t kRevision = 0;
  constexpr uint32_t kMatch = 0;
  RequestBuffer<128> request;
  MessageBuilder builder(request);
  auto* header =
      builder.BeginMessage<nfgenmsg>(NFNL_SUBSYS_NFT_COMPAT << 8 | NFNL_MSG_COMPAT_GET, NLM_F_REQUEST, 0);
  header->nfgen_family = family;
  header->version = NFNETLINK_V0;
  builder.String(NFTA_COMPAT_NAME, name);
  builder.U32(NFTA_COMPAT_REV, htonl(kRevision));
  builder.U32(NFTA_COMPAT_TYPE, htonl(kMatch));
  builder.FinishMessage();
  return socket.Request(builder.sealed(), [](uint16_t, std::span<const uint8_t>) {});
}

}  // namespace viaduct::xtables
