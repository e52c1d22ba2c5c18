#include "conntrack/decode.h"

#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include "conntrack/policy.h"

namespace viaduct::conntrack {

namespace {

/// False: not the family's size.
bool CopyAddress(std::span<const uint8_t> value, uint8_t family, Endpoint& endpoint) {
  if (value.size() != (family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr))) return false;
  memcpy(endpoint.address, value.data(), value.size());
  return true;
}

bool DecodeAddresses(std::span<const uint8_t> nest, uint8_t family, Tuple& tuple) {
  AttributeTable<CTA_IP_MAX> attributes;
  if (!attributes.Parse(nest, kIpPolicy)) return false;
  const bool is_ipv4 = family == AF_INET;
  return CopyAddress(attributes.Bytes(is_ipv4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC), family, tuple.source) &&
         CopyAddress(attributes.Bytes(is_ipv4 ? CTA_IP_V4_DST : CTA_IP_V6_DST), family, tuple.destination);
}

bool DecodeProtocol(std::span<const uint8_t> nest, Tuple& tuple) {
  AttributeTable<CTA_PROTO_MAX> attributes;
  if (!attributes.Parse(nest, kProtoPolicy) || !attributes.Has(CTA_PROTO_NUM)) return false;
  tuple.protocol = attributes.Number<uint8_t>(CTA_PROTO_NUM);
  tuple.source.port = attributes.Port(CTA_PROTO_SRC_PORT);
  tuple.destination.port = attributes.Port(CTA_PROTO_DST_PORT);
  const bool has_both = attributes.Has(CTA_PROTO_SRC_PORT) && attributes.Has(CTA_PROTO_DST_PORT);
  return has_both || !HasPorts(tuple.protocol);
}

template <typename Table>
std::optional<uint16_t> Zone(const Table& attributes, uint16_t type) {
  return attributes.Has(type) ? std::optional(attributes.Port(type)) : std::nullopt;
}

std::optional<Tuple> DecodeTuple(std::span<const uint8_t> nest, uint8_t family) {
  AttributeTable<CTA_TUPLE_MAX> attributes;
  Tuple tuple{};
  if (!attributes.Parse(nest, kTuplePolicy) ||
      !DecodeAddresses(attributes.Bytes(CTA_TUPLE_IP), family, tuple) ||
      !DecodeProtocol(attributes.Bytes(CTA_TUPLE_PROTO), tuple))
    return std::nullopt;
  tuple.zone = Zone(attributes, CTA_TUPLE_ZONE);
  return tuple;
}

/// 0: no state of TCP.
uint8_t TcpState(std::span<const uint8_t> nest) {
  AttributeTable<CTA_PROTOINFO_MAX> attributes;
  if (!attributes.Parse(nest, kProtoInfoPolicy) || !attributes.Has(CTA_PROTOINFO_TCP)) return 0;
  AttributeTable<CTA_PROTOINFO_TCP_MAX> tcp;
  if (!tcp.Parse(attributes.Bytes(CTA_PROTOINFO_TCP), kTcpPolicy)) return 0;
  return tcp.Number<uint8_t>(CTA_PROTOINFO_TCP_STATE);
}

}  // namespace

std::optional<Flow> DecodeFlow(std::span<const uint8_t> payload) {
  constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(nfgenmsg));
  AttributeTable<CTA_MAX> attributes;
  if (payload.size() < kHeaderSize || !attributes.Parse(payload.subspan(kHeaderSize), kFlowPolicy))
    return std::nullopt;
  const uint8_t family = ReadAs<nfgenmsg>(payload).nfgen_family;
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  const auto original = DecodeTuple(attributes.Bytes(CTA_TUPLE_ORIG), family);
  const auto reply = DecodeTuple(attributes.Bytes(CTA_TUPLE_REPLY), family);
  if (!original || !reply) return std::nullopt;
  Flow flow{family, *original, reply->source, std::nullopt, Zone(attributes, CTA_ZONE)};
  if (attributes.Has(CTA_ID)) flow.id_be = attributes.Number<uint32_t>(CTA_ID);
  flow.timeout_seconds = be32toh(attributes.Number<uint32_t>(CTA_TIMEOUT));
  flow.tcp_state = TcpState(attributes.Bytes(CTA_PROTOINFO));
  return flow;
}

}  // namespace viaduct::conntrack
