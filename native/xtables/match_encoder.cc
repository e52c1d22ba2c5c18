#include "xtables/match_encoder.h"

#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_bpf.h>
#include <linux/netfilter/xt_comment.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_mark.h>
#include <linux/netfilter/xt_recent.h>
#include <linux/netfilter/xt_set.h>
#include <linux/netfilter/xt_statistic.h>
#include <linux/netfilter/xt_tcpudp.h>

// The header uses _Bool, which only C has, and defines a macro `bytes`.
#define _Bool bool
#include <linux/netfilter/xt_sctp.h>
#undef _Bool
#undef bytes

#include <cstddef>
#include <vector>

namespace viaduct::xtables {

namespace {

static_assert(Align(sizeof(xt_sctp_info)) == 296 && Align(sizeof(xt_conntrack_mtinfo3)) == 168);
static_assert(Align(sizeof(xt_recent_mtinfo)) == 216 && Align(sizeof(xt_recent_mtinfo_v1)) == 232);
static_assert(sizeof(xt_comment_info) == 256 && kComment == XT_MAX_COMMENT_LEN - 1);
static_assert(kRecentList == XT_RECENT_NAME_LEN - 1);
static_assert(sizeof(xt_set_info_match_v4) == 48 && sizeof(xt_statistic_info) == 24);
static_assert(sizeof(xt_bpf_info) == 528 && sizeof(xt_bpf_info_v1) == 528);

constexpr uint16_t kAnyPort[2] = {0, 65535};

void SetPorts(const RuleRecord& rule, uint16_t (&source)[2], uint16_t (&destination)[2]) {
  const bool has_source = (rule.matches & kSourcePorts) != 0;
  const bool has_destination = (rule.matches & kDestinationPorts) != 0;
  source[0] = has_source ? rule.source_port_from : kAnyPort[0];
  source[1] = has_source ? rule.source_port_to : kAnyPort[1];
  destination[0] = has_destination ? rule.destination_port_from : kAnyPort[0];
  destination[1] = has_destination ? rule.destination_port_to : kAnyPort[1];
}

sock_filter Statement(uint16_t code, uint32_t value) { return {code, 0, 0, value}; }

/// Compares the addresses word by word. Offsets are relative to the network header.
std::vector<sock_filter> CompareAddresses(uint32_t source, uint32_t destination, uint8_t words) {
  std::vector<sock_filter> program;
  for (uint8_t word = 0; word < words; ++word) {
    const uint32_t at = word * sizeof(uint32_t);
    program.push_back(Statement(BPF_LD | BPF_W | BPF_ABS, source + at));
    program.push_back(Statement(BPF_MISC | BPF_TAX, 0));
    program.push_back(Statement(BPF_LD | BPF_W | BPF_ABS, destination + at));
    // Jump to the next word, or after the last word and the first return.
    const auto behind = static_cast<uint8_t>((words - 1 - word) * 4 + 1);
    program.push_back({BPF_JMP | BPF_JEQ | BPF_X, 0, behind, 0});
  }
  program.push_back(Statement(BPF_RET | BPF_K, 0xffffffff));
  program.push_back(Statement(BPF_RET | BPF_K, 0));
  return program;
}

std::vector<sock_filter> AddressProgram(const Shape& shape) {
  constexpr uint32_t kIpv4Source = 12;
  constexpr uint32_t kIpv6Source = 8;
  if (shape.family == AF_INET) return CompareAddresses(kIpv4Source, kIpv4Source + sizeof(in_addr), 1);
  return CompareAddresses(kIpv6Source, kIpv6Source + sizeof(in6_addr), 4);
}

template <typename Info>
void SetProgram(const std::vector<sock_filter>& program, Info& info) {
  info.bpf_program_num_elem = static_cast<uint16_t>(program.size());
  std::copy(program.begin(), program.end(), info.bpf_program);
}

}  // namespace

void AddPorts(const RuleRecord& rule, Extension extension, EntryBuilder& entry) {
  const char* name = NameOf(extension);
  if (extension == Extension::kTcp) {
    entry.AddMatch<xt_tcp>(name, 0, [&](xt_tcp& tcp) { SetPorts(rule, tcp.spts, tcp.dpts); });
    return;
  }
  if (extension == Extension::kUdp) {
    entry.AddMatch<xt_udp>(name, 0, [&](xt_udp& udp) { SetPorts(rule, udp.spts, udp.dpts); });
    return;
  }
  entry.AddMatch<xt_sctp_info>(name, 0, [&](xt_sctp_info& sctp) {
    SetPorts(rule, sctp.spts, sctp.dpts);
    if ((rule.matches & kSourcePorts) != 0) sctp.flags |= XT_SCTP_SRC_PORTS;
    if ((rule.matches & kDestinationPorts) != 0) sctp.flags |= XT_SCTP_DEST_PORTS;
  });
}

void AddMark(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_mark_mtinfo1>(NameOf(Extension::kMark), revision, [&](xt_mark_mtinfo1& mark) {
    mark.mark = rule.mark_value;
    mark.mask = rule.mark_mask;
    mark.invert = (rule.inverts & kInvertMark) != 0 ? 1 : 0;
  });
}

void AddState(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_conntrack_mtinfo3>(NameOf(Extension::kConntrack), revision,
                                       [&](xt_conntrack_mtinfo3& conntrack) {
                                         conntrack.match_flags = XT_CONNTRACK_STATE;
                                         conntrack.state_mask = rule.state;
                                         if ((rule.inverts & kInvertState) != 0)
                                           conntrack.invert_flags = XT_CONNTRACK_STATE;
                                       });
}

void AddUnconfirmed(uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_conntrack_mtinfo3>(NameOf(Extension::kConntrack), revision,
                                       [](xt_conntrack_mtinfo3& conntrack) {
                                         conntrack.match_flags = XT_CONNTRACK_STATUS;
                                         conntrack.invert_flags = XT_CONNTRACK_STATUS;
                                         conntrack.status_mask = IPS_CONFIRMED;
                                       });
}

void AddAddressType(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_addrtype_info_v1>(
      NameOf(Extension::kAddressType), revision, [&](xt_addrtype_info_v1& type) {
        const bool of_source = rule.address_type == 1;
        (of_source ? type.source : type.dest) = XT_ADDRTYPE_LOCAL;
        if ((rule.inverts & kInvertAddressType) != 0)
          type.flags = of_source ? XT_ADDRTYPE_INVERT_SOURCE : XT_ADDRTYPE_INVERT_DEST;
      });
}

void AddSet(const RuleRecord& rule, uint16_t index, uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_set_info_match_v4>(NameOf(Extension::kSet), revision, [&](xt_set_info_match_v4& match) {
    match.match_set.index = index;
    match.match_set.dim = rule.set_dimensions;
    // Bit n stands for dimension n, counted from 1. Bit 0 inverts.
    match.match_set.flags = static_cast<uint8_t>(rule.set_sources << IPSET_DIM_ONE);
    if ((rule.inverts & kInvertSet) != 0) match.match_set.flags |= IPSET_INV_MATCH;
  });
}

void AddSourceDestination(const Shape& shape, uint8_t revision, EntryBuilder& entry) {
  const auto program = AddressProgram(shape);
  const char* name = NameOf(Extension::kBpf);
  if (revision == 0) {
    entry.AddMatch<xt_bpf_info>(name, revision, [&](xt_bpf_info& bpf) { SetProgram(program, bpf); });
    return;
  }
  entry.AddMatch<xt_bpf_info_v1>(name, revision, [&](xt_bpf_info_v1& bpf) {
    bpf.mode = XT_BPF_MODE_BYTECODE;
    SetProgram(program, bpf);
  });
}

void AddStatistic(const RuleRecord& rule, uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_statistic_info>(NameOf(Extension::kStatistic), revision,
                                    [&](xt_statistic_info& statistic) {
                                      statistic.mode = XT_STATISTIC_MODE_RANDOM;
                                      statistic.u.random.probability = rule.probability;
                                    });
}

void AddRecent(const RuleRecord& rule, std::string_view list, uint8_t revision, EntryBuilder& entry) {
  const auto fill = [&](auto& recent) {
    recent.check_set = XT_RECENT_SET;
    if (rule.recent_check != 0) {
      recent.check_set = XT_RECENT_CHECK;
      recent.seconds = rule.recent_seconds;
      if (rule.recent_seconds != 0) recent.check_set |= XT_RECENT_REAP;
    }
    recent.side = XT_RECENT_SOURCE;
    list.copy(recent.name, kRecentList);
  };
  const char* name = NameOf(Extension::kRecent);
  if (revision == 0) {
    entry.AddMatch<xt_recent_mtinfo>(name, revision, fill);
    return;
  }
  entry.AddMatch<xt_recent_mtinfo_v1>(name, revision, [&](xt_recent_mtinfo_v1& recent) {
    fill(recent);
    memset(&recent.mask, 0xff, sizeof recent.mask);  // for IPv4 too, like the iptables tools
  });
}

void AddComment(std::string_view comment, uint8_t revision, EntryBuilder& entry) {
  entry.AddMatch<xt_comment_info>(NameOf(Extension::kComment), revision,
                                  [&](xt_comment_info& info) { comment.copy(info.comment, kComment); });
}

}  // namespace viaduct::xtables
