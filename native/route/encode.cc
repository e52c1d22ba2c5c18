#include "route/encode.h"

#include <netinet/in.h>

#include <algorithm>
#include <cassert>

#include "route/policy.h"

namespace viaduct::route {

namespace {

struct Verb {
  uint16_t type;
  uint16_t flags;
};

Verb VerbOf(Op op, uint16_t new_type, uint16_t delete_type) {
  switch (op) {
    case Op::kAdd:
      return {new_type, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL};
    case Op::kReplace:
      return {new_type, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE};
    case Op::kRemove:
      return {delete_type, NLM_F_REQUEST};
    case Op::kNone:
      break;
  }
  assert(!"operation not checked by the caller");
  return {NLMSG_NOOP, 0};
}

template <typename Header>
bool Finish(MessageBuilder& builder, [[maybe_unused]] const Policy& policy) {
  [[maybe_unused]] const size_t start = builder.size();
  if (!builder.FinishMessage()) return false;
  assert(Conforms(policy, builder.sealed().subspan(start + NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(Header)))));
  return true;
}

std::span<const uint8_t> AddressBytes(const uint8_t (&address)[16], uint8_t family) {
  return std::span(address).first(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr));
}

bool IsZero(const uint8_t (&address)[16]) {
  return std::all_of(std::begin(address), std::end(address), [](uint8_t byte) { return byte == 0; });
}

ifinfomsg* BeginLink(MessageBuilder& builder, uint16_t type, uint16_t flags) {
  auto* header = builder.BeginMessage<ifinfomsg>(type, NLM_F_REQUEST | flags, 0);
  header->ifi_family = AF_UNSPEC;
  return header;
}

}  // namespace

// linux/rtnetlink.h RTM_NEWROUTE, RTM_DELROUTE; parsed by rtm_to_fib_config() and rtm_to_fib6_config(). A
// removal sends the route's identity with the protocol, so that it never removes a foreign route. The
// preferred source is a setting.
bool EncodeRoute(MessageBuilder& builder, uint32_t sequence, const RouteRecord& route) {
  const Verb verb = VerbOf(route.op, RTM_NEWROUTE, RTM_DELROUTE);
  auto* header = builder.BeginMessage<rtmsg>(verb.type, verb.flags, sequence);
  header->rtm_family = route.family;
  header->rtm_dst_len = route.prefix_length;
  header->rtm_table =
      static_cast<uint8_t>(route.table > RT_TABLE_LOCAL ? uint32_t{RT_TABLE_UNSPEC} : route.table);
  header->rtm_protocol = route.protocol;
  header->rtm_scope = route.scope;
  header->rtm_type = route.type;
  builder.Bytes(RTA_DST, AddressBytes(route.destination, route.family));
  if (route.interface_index != 0) builder.U32(RTA_OIF, route.interface_index);
  if (route.metric != 0) builder.U32(RTA_PRIORITY, route.metric);
  if (route.op != Op::kRemove && !IsZero(route.preferred_source))
    builder.Bytes(RTA_PREFSRC, AddressBytes(route.preferred_source, route.family));
  if (route.table > RT_TABLE_LOCAL) builder.U32(RTA_TABLE, route.table);
  return Finish<rtmsg>(builder, kRoutePolicy);
}

// linux/if_addr.h, RTM_NEWADDR, RTM_DELADDR; parsed by rtm_to_ifaddr() and inet6_rtm_newaddr().
bool EncodeAddress(MessageBuilder& builder, uint32_t sequence, const AddressRecord& address) {
  const Verb verb = VerbOf(address.op, RTM_NEWADDR, RTM_DELADDR);
  auto* header = builder.BeginMessage<ifaddrmsg>(verb.type, verb.flags, sequence);
  header->ifa_family = address.family;
  header->ifa_prefixlen = address.prefix_length;
  header->ifa_scope = address.scope;
  header->ifa_index = address.interface_index;
  const auto bytes = AddressBytes(address.address, address.family);
  builder.Bytes(IFA_LOCAL, bytes);
  builder.Bytes(IFA_ADDRESS, bytes);
  if (address.op != Op::kRemove && address.flags != 0) builder.U32(IFA_FLAGS, address.flags);
  return Finish<ifaddrmsg>(builder, kAddressPolicy);
}

// linux/rtnetlink.h RTM_GETROUTE. Checked by inet_rtm_valid_getroute_req() and
// inet6_rtm_valid_getroute_req(), handled by inet_rtm_getroute() and inet6_rtm_getroute(): with RTA_IIF the
// kernel does the lookup of a packet that comes in.
bool EncodeGetRoute(MessageBuilder& builder, const RouteQueryRecord& query) {
  auto* header = builder.BeginMessage<rtmsg>(RTM_GETROUTE, NLM_F_REQUEST, 0);
  const auto destination = AddressBytes(query.destination, query.family);
  const bool has_source = !IsZero(query.source);
  header->rtm_family = query.family;
  header->rtm_dst_len = static_cast<uint8_t>(destination.size() * 8);
  header->rtm_src_len = has_source ? header->rtm_dst_len : 0;
  builder.Bytes(RTA_DST, destination);
  if (has_source) builder.Bytes(RTA_SRC, AddressBytes(query.source, query.family));
  if (query.input_interface != 0) builder.U32(RTA_IIF, query.input_interface);
  if (query.mark != 0) builder.U32(RTA_MARK, query.mark);
  if (query.protocol != 0) {
    builder.U8(RTA_IP_PROTO, query.protocol);
    builder.U16(RTA_DPORT, htobe16(query.destination_port));
  }
  return Finish<rtmsg>(builder, kRoutePolicy);
}

// Checked by ip_valid_fib_dump_req(): with NETLINK_GET_STRICT_CHK the kernel filters by table and type.
bool EncodeDumpLocalRoutes(MessageBuilder& builder, uint8_t family) {
  auto* header = builder.BeginMessage<rtmsg>(RTM_GETROUTE, NLM_F_REQUEST, 0);
  header->rtm_family = family;
  header->rtm_table = RT_TABLE_LOCAL;
  header->rtm_type = RTN_LOCAL;
  builder.U32(RTA_TABLE, RT_TABLE_LOCAL);
  return Finish<rtmsg>(builder, kRoutePolicy);
}

// Checked by ip_valid_fib_dump_req(): with NETLINK_GET_STRICT_CHK the kernel filters by type, and leaves out
// cached routes.
bool EncodeDumpUnicastRoutes(MessageBuilder& builder, uint8_t family) {
  auto* header = builder.BeginMessage<rtmsg>(RTM_GETROUTE, NLM_F_REQUEST, 0);
  header->rtm_family = family;
  header->rtm_type = RTN_UNICAST;
  return Finish<rtmsg>(builder, kRoutePolicy);
}

// Checked by inet_valid_dump_ifaddr_req() and inet6_valid_dump_ifaddr_req().
bool EncodeDumpAddresses(MessageBuilder& builder, uint8_t family, uint32_t interface_index) {
  auto* header = builder.BeginMessage<ifaddrmsg>(RTM_GETADDR, NLM_F_REQUEST, 0);
  header->ifa_family = family;
  header->ifa_index = interface_index;
  return Finish<ifaddrmsg>(builder, kAddressPolicy);
}

// Checked by rtnl_valid_dump_ifinfo_req().
bool EncodeDumpLinks(MessageBuilder& builder) {
  BeginLink(builder, RTM_GETLINK, 0);
  return Finish<ifinfomsg>(builder, kLinkPolicy);
}

// linux/fib_rules.h. Checked by fib_valid_dumprule_req(): all but the family is zero.
bool EncodeDumpRules(MessageBuilder& builder, uint8_t family) {
  auto* header = builder.BeginMessage<fib_rule_hdr>(RTM_GETRULE, NLM_F_REQUEST, 0);
  header->family = family;
  return Finish<fib_rule_hdr>(builder, kRulePolicy);
}

// linux/if_link.h RTM_NEWLINK; handled by rtnl_newlink(), which loads the module "rtnl-link-dummy".
bool EncodeAddDummy(MessageBuilder& builder, std::string_view name) {
  constexpr std::string_view kKind = "dummy";
  BeginLink(builder, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  builder.Bytes(IFLA_IFNAME, {reinterpret_cast<const uint8_t*>(name.data()), name.size()});
  builder.Nest(IFLA_LINKINFO | NLA_F_NESTED, [&] {
    builder.Bytes(IFLA_INFO_KIND, {reinterpret_cast<const uint8_t*>(kKind.data()), kKind.size()});
  });
  return builder.FinishMessage();
}

// Checked by rtnl_valid_getlink_req().
bool EncodeFindLink(MessageBuilder& builder, std::string_view name) {
  BeginLink(builder, RTM_GETLINK, 0);
  builder.Bytes(IFLA_IFNAME, {reinterpret_cast<const uint8_t*>(name.data()), name.size()});
  return builder.FinishMessage();
}

bool EncodeSetUp(MessageBuilder& builder, uint32_t interface_index) {
  auto* header = BeginLink(builder, RTM_NEWLINK, 0);
  header->ifi_index = static_cast<int>(interface_index);
  header->ifi_flags = IFF_UP;
  header->ifi_change = IFF_UP;
  return Finish<ifinfomsg>(builder, kLinkPolicy);
}

bool EncodeRemoveLink(MessageBuilder& builder, uint32_t interface_index) {
  auto* header = BeginLink(builder, RTM_DELLINK, 0);
  header->ifi_index = static_cast<int>(interface_index);
  return Finish<ifinfomsg>(builder, kLinkPolicy);
}

}  // namespace viaduct::route
