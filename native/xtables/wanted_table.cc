#include "xtables/wanted_table.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace viaduct::xtables {

namespace {

using State = WantedChain::State;

uint32_t FindHook(std::string_view name) {
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook)
    if (name == HookName(hook)) return hook;
  return kNone;
}

Error Invalid(std::string text) { return {EINVAL, "change the wanted table", std::move(text)}; }

Status CheckOp(const ChainRecord& op, const Texts& texts) {
  const auto name = texts.At(op.name);
  if (!name) return Invalid("text " + std::to_string(op.name) + " is missing");
  const bool is_hook = FindHook(*name) != kNone;
  switch (static_cast<Op>(op.op)) {
    case Op::kSetHook:
      if (!is_hook) return Invalid("\"" + std::string(*name) + "\" is not a built-in chain of the kernel");
      return Ok();
    case Op::kSetChain:
    case Op::kRemoveChain:
      if (is_hook) return Invalid("\"" + std::string(*name) + "\" is a built-in chain of the kernel");
      if (name->empty() || name->size() > kChainName)
        return Invalid("chain name \"" + std::string(*name) + "\" must have 1 to 28 bytes");
      return Ok();
    default:
      return Invalid("unknown operation " + std::to_string(op.op));
  }
}

/// Whether a rule matches a set or maps through one.
bool NamesSet(std::span<const RuleRecord> rules) {
  return std::ranges::any_of(rules, [](const RuleRecord& rule) { return rule.set_name != kNoText; });
}

}  // namespace

Status WantedTable::Change(const Batch& batch, RuleEncoder& encoder) {
  const Texts texts(batch.texts);
  for (const ChainRecord& op : batch.ops) {
    Status status = CheckOp(op, texts);
    if (!status.ok()) return status;
  }
  kept_texts_.reset();
  for (const ChainRecord& op : batch.ops) {
    const std::string_view name = *texts.At(op.name);
    const auto rules = batch.rules.subspan(op.first_rule, op.rule_count);
    if (static_cast<Op>(op.op) == Op::kSetHook) {
      const uint32_t hook = FindHook(name);
      hooks_[hook].is_set = true;
      hooks_[hook].is_new = true;
      KeepFormer(hooks_[hook]);
      Set(kHooks + hook, rules, batch.texts, texts, encoder);
      continue;
    }
    const uint32_t number = Intern(name);
    WantedChain& chain = chains_[number];
    if (!chain.is_new) new_.push_back(number);
    chain.is_new = true;
    if (static_cast<Op>(op.op) == Op::kSetChain) {
      chain.state = State::kWanted;
      Set(number, rules, batch.texts, texts, encoder);
      continue;
    }
    raw_.erase(number);
    Replace(chain.rules, {});
    if (chain.state != State::kUnwanted) unwanted_.push_back(number);
    chain.state = State::kUnwanted;
  }
  kept_texts_.reset();
  return Ok();
}

Segment& WantedTable::RulesAt(Place place) {
  return place >= kHooks ? hooks_[place - kHooks].rules : chains_[place].rules;
}

std::string WantedTable::NameOf(Place place) const {
  return place >= kHooks ? HookName(static_cast<uint32_t>(place - kHooks)) : chains_[place].name;
}

/// Encodes the rules. Keeps a copy of their records if that fails or must be repeated.
void WantedTable::Set(Place place, std::span<const RuleRecord> rules, std::span<const uint8_t> texts,
                      const Texts& views, RuleEncoder& encoder) {
  raw_.erase(place);
  const Status status = EncodeInto(place, rules, views, encoder);
  if (status.ok() && !NamesSet(rules)) return;
  if (!kept_texts_) kept_texts_ = std::make_shared<const std::vector<uint8_t>>(texts.begin(), texts.end());
  raw_[place] = {{rules.begin(), rules.end()}, kept_texts_};
}

Status WantedTable::EncodeInto(Place place, std::span<const RuleRecord> rules, const Texts& texts,
                               RuleEncoder& encoder) {
  scratch_.Clear();
  for (const RuleRecord& rule : rules) {
    Status status = encoder.Encode(rule, texts, scratch_);
    if (!status.ok()) {
      status.error().operation += " of chain " + NameOf(place);
      return status;
    }
  }
  Segment segment{{scratch_.bytes.begin(), scratch_.bytes.end()}, {}, scratch_.count};
  segment.relocations.reserve(scratch_.jumps.size());
  for (const EncodedRules::Jump& jump : scratch_.jumps) {
    const uint32_t target = Intern(jump.chain);
    ++chains_[target].references;
    segment.relocations.push_back({jump.verdict, target});
  }
  Replace(RulesAt(place), std::move(segment));
  return Ok();
}

Status WantedTable::Complete(RuleEncoder& encoder) {
  for (auto at = raw_.begin(); at != raw_.end();) {
    const auto& [place, raw] = *at;
    Status status = EncodeInto(place, raw.rules, Texts(*raw.texts), encoder);
    if (!status.ok()) return status;
    at = NamesSet(raw.rules) ? std::next(at) : raw_.erase(at);
  }
  return Ok();
}

std::vector<Refusal> WantedTable::FindUnencodable(RuleEncoder& encoder) {
  std::vector<Refusal> refusals;
  for (const auto& [place, raw] : raw_) {
    const Texts texts(*raw.texts);
    for (uint32_t rule = 0; rule < raw.rules.size(); ++rule) {
      scratch_.Clear();
      Status status = encoder.Encode(raw.rules[rule], texts, scratch_);
      if (!status.ok()) refusals.push_back({NameOf(place), rule, std::move(status.error())});
    }
  }
  return refusals;
}

void WantedTable::Settle() {
  for (const uint32_t number : std::exchange(new_, {})) chains_[number].is_new = false;
  for (const uint32_t number : std::exchange(unwanted_, {})) {
    if (chains_[number].state != State::kUnwanted) continue;
    chains_[number].state = State::kNamed;
    Release(number);
  }
  for (WantedHook& hook : hooks_) {
    hook.is_new = false;
    for (const Segment& gone : std::exchange(hook.former, {})) Forget(gone);
  }
}

void WantedTable::KeepFormer(WantedHook& hook) {
  // Repeated attempts at the same change add nothing.
  if (hook.rules.entries == 0 || std::ranges::find(hook.former, hook.rules) != hook.former.end()) return;
  for (const auto& relocation : hook.rules.relocations) ++chains_[relocation.chain].references;
  hook.former.push_back(hook.rules);
}

/// NB: the relocations of `next` are already counted, so a name in both stays.
void WantedTable::Replace(Segment& old, Segment next) { Forget(std::exchange(old, std::move(next))); }

void WantedTable::Forget(const Segment& gone) {
  for (const auto& relocation : gone.relocations) {
    --chains_[relocation.chain].references;
    Release(relocation.chain);
  }
}

/// Drops an unused name.
void WantedTable::Release(uint32_t number) {
  WantedChain& chain = chains_[number];
  if (chain.state != State::kNamed || chain.references != 0 || chain.name.empty()) return;
  numbers_.erase(chain.name);
  chain = {};
  free_.push_back(number);
}

uint32_t WantedTable::Intern(std::string_view name) {
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  uint32_t number = size();
  if (free_.empty()) {
    chains_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  chains_[number].name = name;
  numbers_.emplace(chains_[number].name, number);
  return number;
}

uint32_t WantedTable::Find(std::string_view name, uint32_t guess) const {
  if (guess < size() && !name.empty() && chains_[guess].name == name) return guess;
  const auto known = numbers_.find(name);
  return known == numbers_.end() ? kNone : known->second;
}

}  // namespace viaduct::xtables
