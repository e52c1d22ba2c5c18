#include "route/decode.h"

#include <netinet/in.h>

#include "route/policy.h"

namespace viaduct::route {

namespace {

/// Reads the family header and parses the attributes after it; nothing if either is malformed.
template <typename Header, typename Table>
std::optional<Header> ParseMessage(std::span<const uint8_t> payload, const Policy& policy, Table& table) {
  constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(Header));
  if (payload.size() < kHeaderSize || !table.Parse(payload.subspan(kHeaderSize), policy)) return std::nullopt;
  return ReadAs<Header>(payload);
}

/// False: an unknown family, or not the family's size.
bool CopyAddress(std::span<const uint8_t> value, uint8_t family, uint8_t (&address)[16]) {
  const size_t size = family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
  if ((family != AF_INET && family != AF_INET6) || value.size() != size) return false;
  memcpy(address, value.data(), size);
  return true;
}

void CopyName(std::string_view name, char (&field)[16]) { name.copy(field, sizeof field - 1); }

/// False: `value` is not of the family.
bool AddNextHop(std::vector<AddressRecord>& hops, std::span<const uint8_t> value, uint8_t family,
                uint32_t interface_index) {
  AddressRecord hop{};
  if (!CopyAddress(value, family, hop.address)) return false;
  hop.interface_index = interface_index;
  hop.family = family;
  hop.prefix_length = family == AF_INET ? 32 : 128;
  hops.push_back(hop);
  return true;
}

/// RTA_MULTIPATH: each rtnexthop has its length, which includes the attributes after it. False: malformed.
bool AddMultipath(std::vector<AddressRecord>& hops, std::span<const uint8_t> bytes, uint8_t family) {
  while (bytes.size() >= sizeof(rtnexthop)) {
    const auto hop = ReadAs<rtnexthop>(bytes);
    AttributeTable<RTA_GATEWAY> attributes;
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > bytes.size() ||
        !attributes.Parse(bytes.subspan(sizeof hop, hop.rtnh_len - sizeof hop), kNextHopPolicy))
      return false;
    if (attributes.Has(RTA_GATEWAY) &&
        !AddNextHop(hops, attributes.Bytes(RTA_GATEWAY), family, static_cast<uint32_t>(hop.rtnh_ifindex)))
      return false;
    const size_t step = RTNH_ALIGN(hop.rtnh_len);
    bytes = step < bytes.size() ? bytes.subspan(step) : std::span<const uint8_t>{};
  }
  return bytes.empty();
}

Op EventOp(uint16_t type) { return type == RTM_NEWLINK || type == RTM_NEWADDR ? Op::kAdd : Op::kRemove; }

}  // namespace

std::optional<RouteRecord> DecodeRoute(std::span<const uint8_t> payload) {
  AttributeTable<RTA_TABLE> attributes;
  const auto header = ParseMessage<rtmsg>(payload, kRoutePolicy, attributes);
  if (!header) return std::nullopt;
  RouteRecord route{};
  // A default route has no RTA_DST.
  const bool has_destination = attributes.Has(RTA_DST) || header->rtm_dst_len > 0;
  if (has_destination && !CopyAddress(attributes.Bytes(RTA_DST), header->rtm_family, route.destination))
    return std::nullopt;
  if (attributes.Has(RTA_PREFSRC) &&
      !CopyAddress(attributes.Bytes(RTA_PREFSRC), header->rtm_family, route.preferred_source))
    return std::nullopt;
  route.interface_index = attributes.Number<uint32_t>(RTA_OIF);
  route.metric = attributes.Number<uint32_t>(RTA_PRIORITY);
  route.table = attributes.Number<uint32_t>(RTA_TABLE, header->rtm_table);
  route.family = header->rtm_family;
  route.prefix_length = header->rtm_dst_len;
  route.protocol = header->rtm_protocol;
  route.type = header->rtm_type;
  route.scope = header->rtm_scope;
  route.tos = header->rtm_tos;
  return route;
}

std::optional<std::vector<AddressRecord>> DecodeNextHops(std::span<const uint8_t> payload) {
  AttributeTable<RTA_VIA> attributes;
  const auto header = ParseMessage<rtmsg>(payload, kRoutePolicy, attributes);
  if (!header) return std::nullopt;
  const uint8_t family = header->rtm_family;
  std::vector<AddressRecord> hops;
  if (header->rtm_type != RTN_UNICAST || (header->rtm_flags & RTM_F_CLONED) != 0) return hops;
  const uint32_t interface_index = attributes.Number<uint32_t>(RTA_OIF);
  if (attributes.Has(RTA_MULTIPATH)) {
    if (!AddMultipath(hops, attributes.Bytes(RTA_MULTIPATH), family)) return std::nullopt;
  } else if (attributes.Has(RTA_GATEWAY)) {
    if (!AddNextHop(hops, attributes.Bytes(RTA_GATEWAY), family, interface_index)) return std::nullopt;
  } else if (!attributes.Has(RTA_VIA) && header->rtm_dst_len == (family == AF_INET ? 32 : 128)) {
    if (!AddNextHop(hops, attributes.Bytes(RTA_DST), family, interface_index)) return std::nullopt;
  }
  return hops;
}

std::optional<AddressRecord> DecodeAddress(std::span<const uint8_t> payload) {
  AttributeTable<IFA_FLAGS> attributes;
  const auto header = ParseMessage<ifaddrmsg>(payload, kAddressPolicy, attributes);
  if (!header) return std::nullopt;
  AddressRecord address{};
  // On a point-to-point link IFA_ADDRESS is the peer; IPv6 sends IFA_LOCAL only then.
  const uint16_t source = attributes.Has(IFA_LOCAL) ? IFA_LOCAL : IFA_ADDRESS;
  if (!CopyAddress(attributes.Bytes(source), header->ifa_family, address.address)) return std::nullopt;
  address.interface_index = header->ifa_index;
  address.flags = attributes.Number<uint32_t>(IFA_FLAGS, header->ifa_flags);
  address.family = header->ifa_family;
  address.prefix_length = header->ifa_prefixlen;
  address.scope = header->ifa_scope;
  return address;
}

std::optional<LinkRecord> DecodeLink(std::span<const uint8_t> payload) {
  AttributeTable<IFLA_LINKINFO> attributes;
  AttributeTable<IFLA_INFO_KIND> info;
  const auto header = ParseMessage<ifinfomsg>(payload, kLinkPolicy, attributes);
  if (!header || header->ifi_index <= 0 || attributes.Text(IFLA_IFNAME).empty()) return std::nullopt;
  if (!info.Parse(attributes.Bytes(IFLA_LINKINFO), kLinkInfoPolicy)) return std::nullopt;
  LinkRecord link{};
  CopyName(attributes.Text(IFLA_IFNAME), link.name);
  CopyName(info.Text(IFLA_INFO_KIND), link.kind);
  link.index = static_cast<uint32_t>(header->ifi_index);
  link.flags = header->ifi_flags;
  return link;
}

// fib_nl_fill_rule() leaves out a priority or a mark of zero, and the mask if both mask and mark are zero.
std::optional<RuleRecord> DecodeRule(std::span<const uint8_t> payload) {
  AttributeTable<FRA_FWMASK> attributes;
  const auto header = ParseMessage<fib_rule_hdr>(payload, kRulePolicy, attributes);
  if (!header) return std::nullopt;
  RuleRecord rule{};
  rule.priority = attributes.Number<uint32_t>(FRA_PRIORITY);
  rule.mark = attributes.Number<uint32_t>(FRA_FWMARK);
  rule.mark_mask = attributes.Number<uint32_t>(FRA_FWMASK);
  rule.table = attributes.Number<uint32_t>(FRA_TABLE, header->table);
  rule.action = static_cast<RuleAction>(header->action);
  rule.family = header->family;
  rule.is_inverted = (header->flags & FIB_RULE_INVERT) != 0 ? 1 : 0;
  return rule;
}

std::optional<EventRecord> DecodeEvent(uint16_t type, std::span<const uint8_t> payload) {
  EventRecord event{};
  if (type == RTM_NEWLINK || type == RTM_DELLINK) {
    const auto link = DecodeLink(payload);
    // The bridge sends the same messages about its ports (br_ifinfo_notify). The removal of a port does not
    // remove its interface.
    if (!link || ReadAs<ifinfomsg>(payload).ifi_family != AF_UNSPEC) return std::nullopt;
    event.kind = EventKind::kLink;
    event.interface_index = link->index;
    memcpy(event.name, link->name, sizeof event.name);
  } else if (type == RTM_NEWADDR || type == RTM_DELADDR) {
    const auto address = DecodeAddress(payload);
    if (!address) return std::nullopt;
    event.kind = EventKind::kAddress;
    event.interface_index = address->interface_index;
    event.family = address->family;
    event.prefix_length = address->prefix_length;
    memcpy(event.address, address->address, sizeof event.address);
  } else {
    return std::nullopt;
  }
  event.op = EventOp(type);
  return event;
}

}  // namespace viaduct::route
