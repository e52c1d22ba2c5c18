#include "xtables/refusal_search.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "xtables/entry_builder.h"
#include "xtables/target_encoder.h"

namespace viaduct::xtables {

namespace {

// One refused rule among 100,000 takes 35 tables. The next search finds the rest, after the caller has
// removed the rules found here.
constexpr uint32_t kMostTries = 4096;

bool IsOfARule(int code) { return code != ENOMEM && code != EPERM; }

}  // namespace

RefusalSearch::RefusalSearch(TableSocket& socket, const WantedTable& wanted, uint32_t valid_hooks)
    : socket_(&socket), valid_hooks_(valid_hooks) {
  hook_names_.reserve(NF_INET_NUMHOOKS);  // rules_ points to the names
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook)
    AddRules(hook_names_.emplace_back(HookName(hook)), wanted.hook(hook).rules);
  for (uint32_t number = 0; number < wanted.size(); ++number)
    AddRules(wanted.chain(number).name, wanted.chain(number).rules);
}

void RefusalSearch::AddRules(const std::string& chain, const Segment& segment) {
  const std::span<const uint8_t> bytes(segment.bytes);
  uint32_t number = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = EntryView(socket_->shape(), bytes.data() + at).size();
    rules_.push_back({&chain, number++, bytes.subspan(at, size)});
    at += size;
  }
}

/// Writes policies, the rules and the end. No hook leads to the rules: the kernel checks each one alone.
/// ACCEPT replaces jumps, because their chains are absent.
Status RefusalSearch::Try(std::span<const Rule> rules) {
  const Shape& shape = socket_->shape();
  bytes_.clear();
  TableInfo info;
  info.valid_hooks = valid_hooks_;
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    if ((valid_hooks_ >> hook & 1) == 0) continue;
    info.hook_entry[hook] = info.underflow[hook] = static_cast<uint32_t>(bytes_.size());
    EntryBuilder policy(shape, bytes_);
    SetVerdict(kAcceptVerdict, policy);
    ++info.entries;
  }
  for (const Rule& rule : rules) {
    const size_t at = bytes_.size();
    bytes_.insert(bytes_.end(), rule.bytes.begin(), rule.bytes.end());
    const auto verdict = EntryView(shape, bytes_.data() + at).VerdictOffset();
    // net/netfilter/x_tables.c verdict_ok() refuses 0, the verdict of a jump in a Segment.
    if (verdict && Load<int32_t>(bytes_.data() + at + *verdict) == 0)
      Store(bytes_.data() + at + *verdict, kAcceptVerdict);
  }
  AddHead(shape, "ERROR", bytes_);
  info.entries += static_cast<uint32_t>(rules.size()) + 1;
  info.bytes = static_cast<uint32_t>(bytes_.size());
  TableSocket::Table table = socket_->MakeTable(info);
  std::ranges::copy(bytes_, table.bytes().begin());
  return socket_->Try(table);
}

Result<std::vector<Refusal>> RefusalSearch::Run() {
  std::vector<Refusal> refusals;
  std::vector<std::span<const Rule>> open = {rules_};
  for (uint32_t tries = 0; !open.empty() && tries < kMostTries; ++tries) {
    const std::span<const Rule> rules = open.back();
    open.pop_back();
    Status status = Try(rules);
    if (status.ok()) continue;
    if (rules.empty() || !IsOfARule(status.error().code)) return status.error();
    if (rules.size() == 1) {
      refusals.push_back({*rules[0].chain, rules[0].number, std::move(status.error())});
      continue;
    }
    open.push_back(rules.subspan(rules.size() / 2));
    open.push_back(rules.first(rules.size() / 2));
  }
  return refusals;
}

}  // namespace viaduct::xtables
