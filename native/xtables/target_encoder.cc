#include "xtables/target_encoder.h"

#include <endian.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/xt_mark.h>
#include <linux/netfilter/xt_set.h>
#include <linux/netfilter_ipv4/ipt_REJECT.h>
#include <linux/netfilter_ipv6/ip6t_REJECT.h>

namespace viaduct::xtables {

namespace {

static_assert(sizeof(nf_nat_range2) == 44 && sizeof(nf_nat_range) == 40);
static_assert(sizeof(nf_nat_ipv4_multi_range_compat) == 20);

/// A range of one address and one port; port 0 keeps the packet's port.
template <typename Range>
void SetRange(const RuleRecord& rule, Range& range) {
  range.flags = NF_NAT_RANGE_MAP_IPS;
  memcpy(&range.min_addr, rule.nat_address, sizeof range.min_addr);
  range.max_addr = range.min_addr;
  if (rule.nat_port == 0) return;
  range.flags |= NF_NAT_RANGE_PROTO_SPECIFIED;
  range.min_proto.all = htobe16(rule.nat_port);
  range.max_proto = range.min_proto;
}

}  // namespace

size_t SetVerdict(int32_t verdict, EntryBuilder& entry) {
  return entry.SetTarget<int32_t>(XT_STANDARD_TARGET, 0, [=](int32_t& data) { data = verdict; });
}

void SetMark(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  entry.SetTarget<xt_mark_tginfo2>(NameOf(Extension::kMarkTarget), revision, [&](xt_mark_tginfo2& mark) {
    mark.mark = rule.target_value;
    mark.mask = rule.target_mask;
  });
}

// net/netfilter/xt_nat.c: revision 1 has nf_nat_range, revision 2 nf_nat_range2, for both families.
void SetDnat(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  const char* name = NameOf(Extension::kDnat);
  if (revision == 1)
    entry.SetTarget<nf_nat_range>(name, revision, [&](nf_nat_range& range) { SetRange(rule, range); });
  else
    entry.SetTarget<nf_nat_range2>(name, revision, [&](nf_nat_range2& range) { SetRange(rule, range); });
}

// net/netfilter/xt_MASQUERADE.c
void SetMasquerade(const Shape& shape, const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  const char* name = NameOf(Extension::kMasquerade);
  const uint32_t flags = rule.target_value == 1 ? NF_NAT_RANGE_PROTO_RANDOM_FULLY : 0;
  if (shape.family == AF_INET6) {
    entry.SetTarget<nf_nat_range>(name, revision, [=](nf_nat_range& range) { range.flags = flags; });
    return;
  }
  entry.SetTarget<nf_nat_ipv4_multi_range_compat>(name, revision, [=](nf_nat_ipv4_multi_range_compat& range) {
    range.rangesize = 1;
    range.range[0].flags = flags;
  });
}

void SetReject(const Shape& shape, uint8_t revision, EntryBuilder& entry) {
  static_assert(sizeof(ipt_reject_info) == sizeof(uint32_t) && sizeof(ip6t_reject_info) == sizeof(uint32_t));
  const uint32_t with = shape.family == AF_INET6 ? static_cast<uint32_t>(IP6T_ICMP6_PORT_UNREACH)
                                                 : static_cast<uint32_t>(IPT_ICMP_PORT_UNREACHABLE);
  entry.SetTarget<uint32_t>(NameOf(Extension::kReject), revision, [=](uint32_t& data) { data = with; });
}

// net/netfilter/xt_set.c set_target_v3(): the kernel reads all three sets; IPSET_INVALID_ID is none.
void SetMapMark(const RuleRecord& rule, uint16_t index, uint8_t revision, EntryBuilder& entry) {
  constexpr uint16_t kNoSet = 0xffff;  // IPSET_INVALID_ID
  static_assert(sizeof(xt_set_info_target_v3) == 20);
  entry.SetTarget<xt_set_info_target_v3>(
      NameOf(Extension::kSetTarget), revision, [&](xt_set_info_target_v3& set) {
        set.add_set.index = kNoSet;
        set.del_set.index = kNoSet;
        set.map_set.index = index;
        set.map_set.dim = rule.set_dimensions;
        set.map_set.flags = static_cast<uint8_t>(rule.set_sources << IPSET_DIM_ONE);
        set.flags = IPSET_FLAG_MAP_SKBMARK;
        set.timeout = 0xffffffff;  // no time-out, like the iptables tools
      });
}

}  // namespace viaduct::xtables
