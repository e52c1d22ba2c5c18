#include "xtables/planned_calls.h"

#include <linux/netfilter/ipset/ip_set.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "xtables/entry_builder.h"

namespace viaduct::xtables {

namespace {

/// The hooks of a table without rules: iptable_nat.c, iptable_filter.c, iptable_mangle.c, iptable_raw.c.
uint32_t HooksOf(std::string_view table) {
  constexpr uint32_t kIn = 1U << NF_INET_LOCAL_IN;
  constexpr uint32_t kForward = 1U << NF_INET_FORWARD;
  constexpr uint32_t kOut = 1U << NF_INET_LOCAL_OUT;
  constexpr uint32_t kPre = 1U << NF_INET_PRE_ROUTING;
  constexpr uint32_t kPost = 1U << NF_INET_POST_ROUTING;
  if (table == "nat") return kPre | kIn | kOut | kPost;
  if (table == "filter") return kIn | kForward | kOut;
  if (table == "raw") return kPre | kOut;
  return kPre | kIn | kForward | kOut | kPost;
}

int Refuse(int code) {
  errno = code;
  return -1;
}

}  // namespace

// FNV-1a.
uint16_t PlannedSetIndex(std::string_view name) {
  uint32_t hash = 0x811c9dc5;
  for (const char byte : name) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x01000193;
  return static_cast<uint16_t>(0x8000 | (hash % 0x7fff));
}

bool PlannedCalls::Lists(const char* file, std::string_view line) const {
  std::ifstream lines(proc_ + (shape_->family == AF_INET ? "/ip_tables_" : "/ip6_tables_") + file);
  for (std::string found; std::getline(lines, found);)
    if (found == line) return true;
  return false;
}

void PlannedCalls::MakeEmpty() {
  info_ = {};
  info_.valid_hooks = HooksOf(table_);
  bytes_.clear();
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    if ((info_.valid_hooks >> hook & 1) == 0) continue;
    info_.hook_entry[hook] = info_.underflow[hook] = static_cast<uint32_t>(bytes_.size());
    EntryBuilder policy(*shape_, bytes_);
    policy.SetTarget<int32_t>(XT_STANDARD_TARGET, 0, [](int32_t& verdict) { verdict = kAcceptVerdict; });
    ++info_.entries;
  }
  AddHead(*shape_, XT_ERROR_TARGET, bytes_);
  ++info_.entries;
  info_.bytes = static_cast<uint32_t>(bytes_.size());
  is_planned_ = true;
}

const TableInfo* PlannedCalls::Shown() {
  if (!is_planned_ && !Lists("names", table_)) MakeEmpty();
  return is_planned_ ? &info_ : nullptr;
}

/// The value of IPT_SO_SET_REPLACE. The caller's counters stay 0: a plan counts no packets.
void PlannedCalls::Replace(std::span<const uint8_t> value) {
  ipt_replace header{};
  memcpy(&header, value.data(), sizeof header);
  info_ = {header.valid_hooks, {}, {}, header.num_entries, header.size};
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    if ((info_.valid_hooks >> hook & 1) == 0) continue;
    info_.hook_entry[hook] = header.hook_entry[hook];
    info_.underflow[hook] = header.underflow[hook];
  }
  const auto entries = value.subspan(sizeof header);
  bytes_.assign(entries.begin(), entries.end());
  is_planned_ = true;
}

int PlannedCalls::SetOption(int, int level, int name, std::span<const uint8_t> value) {
  if (level != shape_->level) return Refuse(ENOPROTOOPT);
  if (name == IPT_SO_SET_ADD_COUNTERS) return 0;
  if (name != IPT_SO_SET_REPLACE || value.size() < sizeof(ipt_replace)) return Refuse(EINVAL);
  Replace(value);
  return 0;
}

int PlannedCalls::GetOption(int fd, int level, int name, void* value, socklen_t* length) {
  if (level == SOL_IP && name == SO_IP_SET) return FindSet(fd, value, length);
  if (level != shape_->level) return kernel_->GetOption(fd, level, name, value, length);
  if (name == shape_->match_revision_option || name == shape_->target_revision_option) {
    const char* file = name == shape_->match_revision_option ? "matches" : "targets";
    const auto* query = static_cast<const xt_get_revision*>(value);
    const std::string extension(query->name, strnlen(query->name, sizeof query->name));
    return Lists(file, extension) ? kernel_->GetOption(fd, level, name, value, length) : 0;
  }
  const TableInfo* shown = Shown();
  if (shown == nullptr) return kernel_->GetOption(fd, level, name, value, length);
  if (name == IPT_SO_GET_INFO) {
    auto* info = static_cast<ipt_getinfo*>(value);
    info->valid_hooks = shown->valid_hooks;
    std::ranges::copy(shown->hook_entry, info->hook_entry);
    std::ranges::copy(shown->underflow, info->underflow);
    info->num_entries = shown->entries;
    info->size = shown->bytes;
    return 0;
  }
  if (name != IPT_SO_GET_ENTRIES) return Refuse(EINVAL);
  if (*length != sizeof(ipt_get_entries) + bytes_.size()) return Refuse(EAGAIN);
  memcpy(static_cast<uint8_t*>(value) + sizeof(ipt_get_entries), bytes_.data(), bytes_.size());
  return 0;
}

/// The kernel's set, or one that only the plan has. Without ipset the kernel knows no such option.
int PlannedCalls::FindSet(int fd, void* value, socklen_t* length) {
  constexpr uint16_t kNoSet = 0xffff;  // IPSET_INVALID_ID
  ip_set_req_version request{};
  memcpy(&request, value, sizeof request);
  auto* query = static_cast<ip_set_req_get_set_family*>(value);
  const bool is_lookup = request.op == IP_SET_OP_GET_FNAME;
  // Before the answer: it overwrites the name, which shares memory with the index.
  const std::string name =
      is_lookup ? std::string(query->set.name, strnlen(query->set.name, sizeof query->set.name)) : "";
  const bool is_answered = kernel_->GetOption(fd, SOL_IP, SO_IP_SET, value, length) == 0;
  if (!is_answered && errno != ENOPROTOOPT) return -1;
  if (!is_lookup || (is_answered && query->set.index != kNoSet)) return 0;
  query->set.index = PlannedSetIndex(name);
  query->family = NFPROTO_UNSPEC;
  return 0;
}

}  // namespace viaduct::xtables
