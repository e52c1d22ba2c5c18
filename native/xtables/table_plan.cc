#include "xtables/table_plan.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "xtables/entry_builder.h"

namespace viaduct::xtables {

namespace {

using State = WantedChain::State;

Error Refused(int code, std::string text) { return {code, "change the table", std::move(text)}; }

/// Whether the pattern matches the name, with or without rules.
bool IsMatch(std::string_view pattern, std::string_view name, bool is_empty) {
  const std::string_view stem = pattern.substr(0, pattern.size() - 1);
  if (pattern.ends_with('*')) return name.starts_with(stem);
  if (pattern.ends_with('?')) return is_empty && name == stem;
  return name == pattern;
}

}  // namespace

TablePlan::TablePlan(const TableImage& image, const WantedTable& wanted)
    : image_(&image),
      wanted_(&wanted),
      image_of_(wanted.size(), kNone),
      rules_of_(wanted.size(), kNone),
      chains_(image.chains().size()),
      hooks_(image.built_in().size()) {
  AddHead(image.shape(), {}, head_);
  AddReturn(image.shape(), closing_);
}

Result<TablePlan> TablePlan::Make(const TableImage& image, const WantedTable& wanted,
                                  std::span<const std::string> prune) {
  TablePlan plan(image, wanted);
  plan.MatchChains(prune);
  Status status = plan.KeepReferenced();
  if (!status.ok()) return status.error();
  for (size_t i = 0; i < plan.hooks_.size(); ++i) {
    status = plan.SortHook(image.built_in()[i], plan.hooks_[i]);
    if (!status.ok()) return status.error();
  }
  plan.CompareChains();
  plan.Place();
  status = plan.CheckWanted();
  if (!status.ok()) return status.error();
  return plan;
}

/// Whether the chain ends as libiptc ends each chain: RETURN for all packets. Any other last entry is a rule.
bool TablePlan::IsClosed(const ImageChain& there) const {
  return there.end - there.last == closing_.size() &&
         IsSameEntry(image_->shape(), closing_.data(), image_->At(there.last).bytes(), closing_.size(), 0);
}

void TablePlan::MatchChains(std::span<const std::string> prune) {
  uint32_t last = kNone;
  for (uint32_t i = 0; i < chains_.size(); ++i) {
    Chain& chain = chains_[i];
    const ImageChain& there = image_->chains()[i];
    const uint32_t number = wanted_->Find(there.name, last + 1);
    if (number != kNone) last = number;
    // The kernel accepts two chains of one name. The first is the desired one; removal removes all of them.
    const bool is_first = number != kNone && image_of_[number] == kNone;
    if (is_first) image_of_[number] = i;
    const State state = number == kNone ? State::kNamed : wanted_->chain(number).state;
    if (state == State::kWanted && is_first) {
      chain.wanted = number;
      chain.fate = Fate::kChanged;
    } else if (state == State::kUnwanted) {
      chain.fate = Fate::kGone;
    } else {
      const auto match = std::ranges::find_if(prune, [&](const std::string& pattern) {
        return IsMatch(pattern, there.name, there.rules == there.last && IsClosed(there));
      });
      if (match == prune.end()) continue;
      chain.fate = Fate::kGone;
      chain.is_shared = match->ends_with('?');
    }
  }
  for (uint32_t number = 0; number < wanted_->size(); ++number) {
    if (image_of_[number] == kNone && wanted_->chain(number).state == State::kWanted)
      added_.push_back(number);
  }
}

/// Empties a chain that should be removed, or leaves a shared one unchanged: it has no rules, so no jumps.
/// Two chains of one name are reported once.
void TablePlan::Spare(uint32_t target, std::string_view by) {
  if (chains_[target].is_shared) {
    chains_[target].fate = Fate::kForeign;
    return;
  }
  chains_[target].fate = Fate::kChanged;
  chains_[target].is_kept = true;
  const std::string_view name = image_->chains()[target].name;
  if (std::ranges::find(kept_, name, &KeptChain::chain) == kept_.end())
    kept_.push_back({std::string(name), std::string(by)});
}

/// Keeps chains that rules of foreign chains jump to: the kernel does not remove them.
Status TablePlan::KeepReferenced() {
  for (uint32_t i = 0; i < chains_.size(); ++i) {
    if (chains_[i].fate != Fate::kForeign) continue;
    const ImageChain& there = image_->chains()[i];
    for (uint32_t offset = there.rules; offset < there.end; offset += image_->At(offset).size()) {
      auto jump = image_->JumpAt(offset);
      if (!jump.ok()) return jump.error();
      if (!jump.value() || jump.value()->chain == kNone) continue;
      const uint32_t target = jump.value()->chain;
      if (chains_[target].fate == Fate::kGone) Spare(target, there.name);
    }
  }
  return Ok();
}

/// A rule of a hook is Viaduct's if it jumps to a chain of Viaduct or was set for the hook.
Result<TablePlan::Owner> TablePlan::FindOwner(uint32_t offset, const WantedHook& wanted) const {
  auto jump = image_->JumpAt(offset);
  if (!jump.ok()) return jump.error();
  if (jump.value() && jump.value()->chain != kNone) {
    const Chain& target = chains_[jump.value()->chain];
    if (target.fate == Fate::kGone || target.is_kept) return Owner::kGone;
    if (target.fate != Fate::kForeign && wanted.is_set) return Owner::kOurs;
  }
  if (!wanted.is_set) return Owner::kOther;
  const RuleMatcher matcher = this->matcher();
  const bool is_ours =
      matcher.HasRule(wanted.rules, offset) || std::ranges::any_of(wanted.former, [&](const Segment& former) {
        return matcher.HasRule(former, offset);
      });
  return is_ours ? Owner::kOurs : Owner::kOther;
}

/// Whether the rules at these offsets are equal to `rules`.
bool TablePlan::IsSame(const Segment& rules, std::span<const uint32_t> there) const {
  if (rules.entries != there.size()) return false;
  const RuleMatcher matcher = this->matcher();
  auto next = there.begin();
  bool is_same = true;
  matcher.ForEach(rules,
                  [&](const RuleMatcher::Rule& rule) { return is_same = matcher.IsSame(rule, *next++); });
  return is_same;
}

Status TablePlan::SortHook(const ImageChain& there, Hook& hook) const {
  const WantedHook& wanted = wanted_->hook(there.hook);
  std::vector<uint32_t> lasting;
  for (uint32_t offset = there.rules; offset < there.last; offset += image_->At(offset).size()) {
    auto owner = FindOwner(offset, wanted);
    if (!owner.ok()) return owner.error();
    if (owner.value() == Owner::kOther) continue;
    hook.ours.push_back(offset);
    if (owner.value() == Owner::kOurs) lasting.push_back(offset);
  }
  hook.is_same = IsSame(wanted.rules, hook.ours);
  hook.is_other = !IsSame(wanted.rules, lasting);
  return Ok();
}

/// Rules of a desired chain.
const Segment& TablePlan::RulesOf(const Chain& chain) const {
  return chain.is_kept ? no_rules_ : wanted_->chain(chain.wanted).rules;
}

void TablePlan::CompareChains() {
  const RuleMatcher matcher = this->matcher();
  for (uint32_t i = 0; i < chains_.size(); ++i) {
    Chain& chain = chains_[i];
    if (chain.fate != Fate::kChanged) continue;
    const ImageChain& there = image_->chains()[i];
    if (IsClosed(there) && matcher.IsSame(RulesOf(chain), there.rules, there.last)) chain.fate = Fate::kSame;
  }
}

uint32_t TablePlan::PlaceHook(const ImageChain& there, Hook& hook, uint32_t offset) {
  info_.hook_entry[there.hook] = offset;
  hook.first_entry = info_.entries;
  uint32_t size = there.end - there.begin;
  info_.entries += there.entries;
  if (!hook.is_same) {
    const Segment& rules = wanted_->hook(there.hook).rules;
    for (const uint32_t ours : hook.ours) size -= image_->At(ours).size();
    size += static_cast<uint32_t>(rules.bytes.size());
    info_.entries += rules.entries - static_cast<uint32_t>(hook.ours.size());
  }
  info_.underflow[there.hook] = offset + size - (there.end - there.last);
  return offset + size;
}

/// Places every chain. Chains of the image keep their order, others follow.
void TablePlan::Place() {
  bool is_done = added_.empty();
  bool is_in_place = is_done;
  uint32_t offset = 0;
  for (size_t i = 0; i < hooks_.size(); ++i) {
    const ImageChain& there = image_->built_in()[i];
    info_.valid_hooks |= 1U << there.hook;
    offset = PlaceHook(there, hooks_[i], offset);
    is_done = is_done && hooks_[i].is_same;
    is_in_place = is_in_place && hooks_[i].is_same;
  }
  const auto head = static_cast<uint32_t>(head_.size());
  const auto closing = static_cast<uint32_t>(closing_.size());
  const auto place_ours = [&](const Segment& segment) {
    offset += head + static_cast<uint32_t>(segment.bytes.size()) + closing;
    info_.entries += segment.entries + 2;
  };
  for (size_t i = 0; i < chains_.size(); ++i) {
    Chain& chain = chains_[i];
    const ImageChain& there = image_->chains()[i];
    is_done = is_done && (chain.fate == Fate::kForeign || chain.fate == Fate::kSame);
    if (chain.fate == Fate::kGone) continue;
    is_in_place = is_in_place && offset == there.begin;
    chain.first_entry = info_.entries;
    if (chain.fate != Fate::kForeign) {
      chain.rules = offset + head;
      is_in_place = is_in_place && chain.rules == there.rules;
      place_ours(RulesOf(chain));
      continue;
    }
    chain.rules = offset + (there.rules - there.begin);
    offset += there.end - there.begin;
    info_.entries += there.entries;
  }
  for (uint32_t number = 0; number < rules_of_.size(); ++number)
    if (image_of_[number] != kNone) rules_of_[number] = chains_[image_of_[number]].rules;
  for (const uint32_t number : added_) {
    rules_of_[number] = offset + head;
    place_ours(wanted_->chain(number).rules);
  }
  info_.bytes = offset + image_->At(image_->final()).size();
  ++info_.entries;
  is_done_ = is_done;
  is_in_place_ = is_in_place && offset == image_->final();
}

Status TablePlan::CheckJumps(const Segment& segment, std::string_view owner) const {
  for (const auto& relocation : segment.relocations) {
    if (rules_of_[relocation.chain] != kNone) continue;
    return Refused(ENOENT, "chain " + std::string(owner) + " jumps to " +
                               wanted_->chain(relocation.chain).name + ", which does not exist");
  }
  return Ok();
}

Status TablePlan::CheckWanted() const {
  uint64_t bytes = image_->bytes().size();
  for (uint32_t number = 0; number < wanted_->size(); ++number) {
    const WantedChain& chain = wanted_->chain(number);
    if (chain.state != State::kWanted) continue;
    Status status = CheckJumps(chain.rules, chain.name);
    if (!status.ok()) return status;
    bytes += chain.rules.bytes.size() + head_.size() + closing_.size();
  }
  if (bytes > INT32_MAX) return Refused(ENOMEM, "the table would be larger than 2 GiB");
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    const WantedHook& wanted = wanted_->hook(hook);
    if (wanted.rules.entries != 0 && (info_.valid_hooks >> hook & 1) == 0)
      return Refused(EINVAL, std::string("the table has no hook ") + HookName(hook));
    Status status = CheckJumps(wanted.rules, HookName(hook));
    if (!status.ok()) return status;
  }
  return Ok();
}

Drift TablePlan::FindDrift() const {
  Drift drift;
  for (const uint32_t number : added_) drift.missing.push_back(wanted_->chain(number).name);
  for (size_t i = 0; i < chains_.size(); ++i) {
    const bool is_right = chains_[i].fate == Fate::kForeign || chains_[i].fate == Fate::kSame;
    if (!is_right) drift.changed.emplace_back(image_->chains()[i].name);
  }
  for (size_t i = 0; i < hooks_.size(); ++i)
    if (!hooks_[i].is_same) drift.changed.emplace_back(image_->built_in()[i].name);
  return drift;
}

Drift TablePlan::FindRepairs() const {
  Drift drift;
  for (const uint32_t number : added_)
    if (!wanted_->chain(number).is_new) drift.missing.push_back(wanted_->chain(number).name);
  for (size_t i = 0; i < chains_.size(); ++i) {
    const Chain& chain = chains_[i];
    if (chain.fate == Fate::kChanged && !chain.is_kept && !wanted_->chain(chain.wanted).is_new)
      drift.changed.emplace_back(image_->chains()[i].name);
  }
  for (size_t i = 0; i < hooks_.size(); ++i) {
    const ImageChain& there = image_->built_in()[i];
    if (hooks_[i].is_other && !wanted_->hook(there.hook).is_new) drift.changed.emplace_back(there.name);
  }
  return drift;
}

}  // namespace viaduct::xtables
