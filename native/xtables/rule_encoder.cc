#include "xtables/rule_encoder.h"

#include <linux/if.h>

#include <cerrno>
#include <cstring>

#include "ipset/set_index.h"
#include "xtables/entry_builder.h"
#include "xtables/match_encoder.h"
#include "xtables/target_encoder.h"

namespace viaduct::xtables {

namespace {

Error Invalid(std::string text) { return {EINVAL, "encode a rule", std::move(text)}; }

/// `address` cut to the prefix, as the kernel requires, and the mask.
void SetNetwork(const uint8_t (&address)[16], uint8_t prefix, size_t size, void* network, void* mask) {
  uint8_t cut[16];
  uint8_t bits[16];
  for (size_t i = 0; i < size; ++i) {
    const size_t left = prefix > i * 8 ? prefix - i * 8 : 0;
    bits[i] = left >= 8 ? 0xff : static_cast<uint8_t>(0xff00U >> left);
    cut[i] = address[i] & bits[i];
  }
  memcpy(network, cut, size);
  memcpy(mask, bits, size);
}

void SetInterface(std::string_view name, char* field, unsigned char* mask) {
  name.copy(field, IFNAMSIZ - 1);
  // The mask covers the NUL of a complete name, and not the '+' of a prefix.
  memset(mask, 0xff, name.ends_with('+') ? name.size() - 1 : name.size() + 1);
}

std::optional<Extension> PortsOf(uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return Extension::kTcp;
    case IPPROTO_UDP:
      return Extension::kUdp;
    case IPPROTO_SCTP:
      return Extension::kSctp;
    default:
      return std::nullopt;
  }
}

uint8_t InverseFlags(uint16_t inverts) {
  // IPT_INV_* and IP6T_INV_* are equal.
  static_assert(IPT_INV_SRCIP == IP6T_INV_SRCIP && IPT_INV_VIA_OUT == IP6T_INV_VIA_OUT);
  uint8_t flags = 0;
  if ((inverts & kInvertSource) != 0) flags |= IPT_INV_SRCIP;
  if ((inverts & kInvertDestination) != 0) flags |= IPT_INV_DSTIP;
  if ((inverts & kInvertInInterface) != 0) flags |= IPT_INV_VIA_IN;
  if ((inverts & kInvertOutInterface) != 0) flags |= IPT_INV_VIA_OUT;
  return flags;
}

}  // namespace

Texts::Texts(std::span<const uint8_t> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = strnlen(text + at, bytes.size() - at);
    texts_.emplace_back(text + at, length);
    at += length + 1;
  }
}

void EncodedRules::Clear() {
  bytes.clear();
  jumps.clear();
  count = 0;
}

/// The steps of one Encode() and their common inputs.
struct RuleEncoder::Scope {
  RuleEncoder& encoder;
  const RuleRecord& rule;
  const Texts& texts;
  EncodedRules& rules;
  EntryBuilder entry;
  bool is_for_loading = false;  ///< the entry is discarded

  Status Fill();
  Result<std::string_view> Text(uint32_t number, size_t longest, const char* what) const;
  Status SetHeader();
  template <typename Header>
  Status SetInterfaces(Header& header);
  Status AddMatches();
  Status AddPortMatch();
  Result<uint16_t> FindSet() const;
  Status AddSetMatch();
  Status AddRecentMatch();
  Status AddCommentMatch();
  Status SetTarget();
  Status SetExtensionTarget();
  Status SetMapMarkTarget();
  Status SetJump();

  /// Calls `add` with the kernel's revision.
  template <typename Add>
  Status With(Extension extension, Add add) {
    auto revision = encoder.extensions_.Revision(extension);
    if (!revision.ok()) return revision.error();
    add(revision.value());
    return Ok();
  }
};

Result<std::string_view> RuleEncoder::Scope::Text(uint32_t number, size_t longest, const char* what) const {
  const auto text = texts.At(number);
  if (!text) return Invalid(std::string("the text is missing: ") + what);
  if (text->empty() || text->size() > longest)
    return Invalid(std::string(what) + " \"" + std::string(*text) + "\" must have 1 to " +
                   std::to_string(longest) + " bytes");
  return *text;
}

template <typename Header>
Status RuleEncoder::Scope::SetInterfaces(Header& header) {
  if (rule.in_interface != kNoText) {
    auto name = Text(rule.in_interface, IFNAMSIZ - 1, "interface");
    if (!name.ok()) return name.error();
    SetInterface(name.value(), header.iniface, header.iniface_mask);
  }
  if (rule.out_interface != kNoText) {
    auto name = Text(rule.out_interface, IFNAMSIZ - 1, "interface");
    if (!name.ok()) return name.error();
    SetInterface(name.value(), header.outiface, header.outiface_mask);
  }
  return Ok();
}

Status RuleEncoder::Scope::SetHeader() {
  const bool is_goto = static_cast<Target>(rule.target) == Target::kGoto;
  if (encoder.shape_->family == AF_INET) {
    if (rule.source_prefix > 32 || rule.destination_prefix > 32) return Invalid("a prefix is longer than 32");
    ipt_ip header;
    memset(&header, 0, sizeof header);
    SetNetwork(rule.source, rule.source_prefix, sizeof header.src, &header.src, &header.smsk);
    SetNetwork(rule.destination, rule.destination_prefix, sizeof header.dst, &header.dst, &header.dmsk);
    Status status = SetInterfaces(header);
    if (!status.ok()) return status;
    header.proto = rule.protocol;
    header.flags = is_goto ? IPT_F_GOTO : 0;
    header.invflags = InverseFlags(rule.inverts);
    entry.SetHeader(header);
    return Ok();
  }
  if (rule.source_prefix > 128 || rule.destination_prefix > 128)
    return Invalid("a prefix is longer than 128");
  ip6t_ip6 header;
  memset(&header, 0, sizeof header);
  SetNetwork(rule.source, rule.source_prefix, sizeof header.src, &header.src, &header.smsk);
  SetNetwork(rule.destination, rule.destination_prefix, sizeof header.dst, &header.dst, &header.dmsk);
  Status status = SetInterfaces(header);
  if (!status.ok()) return status;
  header.proto = rule.protocol;
  header.flags = is_goto ? IP6T_F_GOTO : 0;
  // Without the flag the kernel ignores the protocol.
  if (rule.protocol != 0) header.flags |= IP6T_F_PROTO;
  header.invflags = InverseFlags(rule.inverts);
  entry.SetHeader(header);
  return Ok();
}

Status RuleEncoder::Scope::AddPortMatch() {
  if ((rule.matches & (kSourcePorts | kDestinationPorts)) == 0) return Ok();
  const auto extension = PortsOf(rule.protocol);
  if (!extension) return Invalid("protocol " + std::to_string(rule.protocol) + " has no ports");
  return With(*extension, [&](uint8_t) { AddPorts(rule, *extension, entry); });
}

Result<uint16_t> RuleEncoder::Scope::FindSet() const {
  auto name = Text(rule.set_name, SIZE_MAX, "set");
  if (!name.ok()) return name.error();
  if (rule.set_dimensions == 0 || rule.set_dimensions > 6)
    return Invalid("a set must have 1 to 6 dimensions");
  if (is_for_loading) return uint16_t{0};
  return ipset::FindSetIndex(*encoder.calls_, encoder.fd_, encoder.shape_->family, std::string(name.value()));
}

Status RuleEncoder::Scope::AddSetMatch() {
  auto index = FindSet();
  if (!index.ok()) return index.error();
  return With(Extension::kSet, [&](uint8_t revision) { AddSet(rule, index.value(), revision, entry); });
}

Status RuleEncoder::Scope::AddRecentMatch() {
  auto list = Text(rule.recent_list, kRecentList, "recent list");
  if (!list.ok()) return list.error();
  return With(Extension::kRecent, [&](uint8_t revision) { AddRecent(rule, list.value(), revision, entry); });
}

Status RuleEncoder::Scope::AddCommentMatch() {
  if (rule.comment == kNoText) return Ok();
  auto comment = Text(rule.comment, kComment, "comment");
  if (!comment.ok()) return comment.error();
  return With(Extension::kComment, [&](uint8_t revision) { AddComment(comment.value(), revision, entry); });
}

Status RuleEncoder::Scope::AddMatches() {
  struct Part {
    uint16_t match;
    Extension extension;
    void (*add)(Scope& scope, uint8_t revision);
  };
  static constexpr Part kCheap[] = {
      {kMark, Extension::kMark, [](Scope& s, uint8_t r) { AddMark(s.rule, r, s.entry); }},
      {kAddressType, Extension::kAddressType,
       [](Scope& s, uint8_t r) { AddAddressType(s.rule, r, s.entry); }},
      {kState, Extension::kConntrack, [](Scope& s, uint8_t r) { AddState(s.rule, r, s.entry); }},
      {kUnconfirmed, Extension::kConntrack, [](Scope& s, uint8_t r) { AddUnconfirmed(r, s.entry); }},
      {kSourceDestination, Extension::kBpf,
       [](Scope& s, uint8_t r) { AddSourceDestination(*s.encoder.shape_, r, s.entry); }},
  };
  // As hasLateComment of src/kernel/xtables/xtables.ts: `iptables -C` compares the order of the matches.
  const auto target = static_cast<Target>(rule.target);
  const bool is_jump = target == Target::kJump || target == Target::kGoto;
  Status status = is_jump ? Ok() : AddCommentMatch();
  if (status.ok()) status = AddPortMatch();
  for (const Part& part : kCheap) {
    if (!status.ok()) return status;
    if ((rule.matches & part.match) != 0)
      status = With(part.extension, [&](uint8_t revision) { part.add(*this, revision); });
  }
  if (status.ok() && (rule.matches & kSet) != 0) status = AddSetMatch();
  if (status.ok() && (rule.matches & kStatistic) != 0)
    status = With(Extension::kStatistic, [&](uint8_t revision) { AddStatistic(rule, revision, entry); });
  if (status.ok() && (rule.matches & kRecent) != 0) status = AddRecentMatch();
  if (status.ok() && is_jump) status = AddCommentMatch();
  return status;
}

Status RuleEncoder::Scope::SetJump() {
  auto chain = Text(rule.target_chain, kChainName, "chain to jump to");
  if (!chain.ok()) return chain.error();
  const size_t verdict = SetVerdict(0, entry);
  rules.jumps.push_back({static_cast<uint32_t>(verdict), chain.value()});
  return Ok();
}

Status RuleEncoder::Scope::SetExtensionTarget() {
  const Shape& shape = *encoder.shape_;
  switch (static_cast<Target>(rule.target)) {
    case Target::kMark:
      return With(Extension::kMarkTarget, [&](uint8_t revision) { SetMark(rule, revision, entry); });
    case Target::kDnat:
      return With(Extension::kDnat, [&](uint8_t revision) { SetDnat(rule, revision, entry); });
    case Target::kMasquerade:
      return With(Extension::kMasquerade,
                  [&](uint8_t revision) { SetMasquerade(shape, rule, revision, entry); });
    case Target::kReject:
      return With(Extension::kReject, [&](uint8_t revision) { SetReject(shape, revision, entry); });
    case Target::kMapMark:
      return SetMapMarkTarget();
    default:
      return Invalid("unknown target " + std::to_string(rule.target));
  }
}

Status RuleEncoder::Scope::SetMapMarkTarget() {
  if ((rule.matches & kSet) != 0) return Invalid("a rule can use a set to match or to map, not both");
  auto index = FindSet();
  if (!index.ok()) return index.error();
  return With(Extension::kSetTarget,
              [&](uint8_t revision) { SetMapMark(rule, index.value(), revision, entry); });
}

Status RuleEncoder::Scope::SetTarget() {
  switch (static_cast<Target>(rule.target)) {
    case Target::kJump:
    case Target::kGoto:
      return SetJump();
    case Target::kAccept:
      SetVerdict(kAcceptVerdict, entry);
      return Ok();
    case Target::kDrop:
      SetVerdict(kDropVerdict, entry);
      return Ok();
    case Target::kReturn:
      SetVerdict(kReturnVerdict, entry);
      return Ok();
    default:
      return SetExtensionTarget();
  }
}

Status RuleEncoder::Scope::Fill() {
  Status status = SetHeader();
  if (status.ok()) status = AddMatches();
  if (status.ok()) status = SetTarget();
  return status;
}

Status RuleEncoder::Encode(const RuleRecord& rule, const Texts& texts, EncodedRules& rules) {
  Status status = Scope{*this, rule, texts, rules, EntryBuilder(*shape_, rules.bytes)}.Fill();
  if (status.ok()) ++rules.count;
  return status;
}

void RuleEncoder::Load(const RuleRecord& rule, const Texts& texts) {
  EncodedRules unwanted;
  (void)Scope{*this, rule, texts, unwanted, EntryBuilder(*shape_, unwanted.bytes), true}.Fill();
}

}  // namespace viaduct::xtables
