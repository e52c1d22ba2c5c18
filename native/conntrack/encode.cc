#include "conntrack/encode.h"

#include <endian.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <cassert>
#include <cstring>

#include "conntrack/policy.h"

namespace viaduct::conntrack {

namespace {

/// Bits of CTA_FILTER_ORIG_FLAGS: CTA_FILTER_FLAG() of net/netfilter/nf_conntrack_netlink.c, in no UAPI
/// header.
constexpr uint32_t kFilterDestination = 1U << 1;
constexpr uint32_t kFilterProtocol = 1U << 3;
constexpr uint32_t kFilterDestinationPort = 1U << 5;

constexpr uint16_t Nested(uint16_t type) { return type | NLA_F_NESTED; }
constexpr uint16_t MessageType(uint16_t type) { return NFNL_SUBSYS_CTNETLINK << 8 | type; }

void Begin(MessageBuilder& builder, uint16_t type, uint32_t sequence, uint8_t family) {
  auto* header = builder.BeginMessage<nfgenmsg>(MessageType(type), NLM_F_REQUEST, sequence);
  header->nfgen_family = family;
  header->version = NFNETLINK_V0;
}

bool Finish(MessageBuilder& builder) {
  [[maybe_unused]] const size_t start = builder.size();
  if (!builder.FinishMessage()) return false;
  assert(
      Conforms(kFlowPolicy, builder.sealed().subspan(start + NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg)))));
  return true;
}

std::span<const uint8_t> AddressBytes(const uint8_t (&address)[16], uint8_t family) {
  return std::span(address).first(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr));
}

/// NB: not for IPv6. ctnetlink_filter_match_tuple() treats ipv6_addr_cmp(), which is 0 for equal addresses,
/// as an equality test and sends the flows of all other addresses (seen on 6.18).
bool FiltersByAddress(uint8_t family, const FrontendRecord& frontend) {
  return family == AF_INET && frontend.is_node_port == 0;
}

uint16_t DestinationType(uint8_t family) { return family == AF_INET ? CTA_IP_V4_DST : CTA_IP_V6_DST; }
uint16_t SourceType(uint8_t family) { return family == AF_INET ? CTA_IP_V4_SRC : CTA_IP_V6_SRC; }

}  // namespace

// linux/netfilter/nfnetlink_conntrack.h IPCTNL_MSG_CT_GET with NLM_F_DUMP: ctnetlink_get_conntrack().
bool EncodeDump(MessageBuilder& builder, uint8_t family) {
  Begin(builder, IPCTNL_MSG_CT_GET, 0, family);
  return Finish(builder);
}

// CTA_FILTER: ctnetlink_alloc_filter() requires the fields of the flags in the tuple. The flags are in host
// order, unlike the other fields.
bool EncodeFilteredDump(MessageBuilder& builder, uint8_t family, const FrontendRecord& frontend) {
  const bool has_address = FiltersByAddress(family, frontend);
  Begin(builder, IPCTNL_MSG_CT_GET, 0, family);
  builder.Nest(Nested(CTA_TUPLE_ORIG), [&] {
    if (has_address) {
      builder.Nest(Nested(CTA_TUPLE_IP),
                   [&] { builder.Bytes(DestinationType(family), AddressBytes(frontend.address, family)); });
    }
    builder.Nest(Nested(CTA_TUPLE_PROTO), [&] {
      builder.U8(CTA_PROTO_NUM, frontend.protocol);
      builder.U16(CTA_PROTO_DST_PORT, htobe16(frontend.port));
    });
  });
  builder.Nest(Nested(CTA_FILTER), [&] {
    builder.U32(CTA_FILTER_ORIG_FLAGS,
                kFilterProtocol | kFilterDestinationPort | (has_address ? kFilterDestination : 0));
    builder.U32(CTA_FILTER_REPLY_FLAGS, 0);
  });
  return Finish(builder);
}

bool IsWithinFilter(const FrontendRecord& frontend, const Flow& flow) {
  const Tuple& tuple = flow.original;
  if (tuple.protocol != frontend.protocol || tuple.destination.port != frontend.port) return false;
  return !FiltersByAddress(flow.family, frontend) ||
         memcmp(tuple.destination.address, frontend.address, sizeof frontend.address) == 0;
}

// IPCTNL_MSG_CT_DELETE: ctnetlink_del_conntrack().
bool EncodeDelete(MessageBuilder& builder, uint32_t sequence, const Flow& flow) {
  const Tuple& tuple = flow.original;
  Begin(builder, IPCTNL_MSG_CT_DELETE, sequence, flow.family);
  builder.Nest(Nested(CTA_TUPLE_ORIG), [&] {
    builder.Nest(Nested(CTA_TUPLE_IP), [&] {
      builder.Bytes(SourceType(flow.family), AddressBytes(tuple.source.address, flow.family));
      builder.Bytes(DestinationType(flow.family), AddressBytes(tuple.destination.address, flow.family));
    });
    builder.Nest(Nested(CTA_TUPLE_PROTO), [&] {
      builder.U8(CTA_PROTO_NUM, tuple.protocol);
      builder.U16(CTA_PROTO_SRC_PORT, htobe16(tuple.source.port));
      builder.U16(CTA_PROTO_DST_PORT, htobe16(tuple.destination.port));
    });
    if (tuple.zone) builder.U16(CTA_TUPLE_ZONE, htobe16(*tuple.zone));
  });
  if (flow.id_be) builder.U32(CTA_ID, *flow.id_be);
  if (flow.zone) builder.U16(CTA_ZONE, htobe16(*flow.zone));
  return Finish(builder);
}

}  // namespace viaduct::conntrack
