// The second half of TablePlan: the bytes of the new table and its counters.
#include <algorithm>

#include "xtables/table_plan.h"

namespace viaduct::xtables {

namespace {

void Copy(std::span<const uint8_t> from, uint32_t to, std::span<uint8_t> table) {
  if (!from.empty()) memcpy(table.data() + to, from.data(), from.size());
}

}  // namespace

/// Collects stays and joins adjacent ones.
class TablePlan::Stays {
 public:
  void Add(uint32_t from, uint32_t to, uint32_t count) {
    if (!all_.empty() && all_.back().from + all_.back().count == from &&
        all_.back().to + all_.back().count == to)
      all_.back().count += count;
    else
      all_.push_back({from, to, count});
  }
  std::vector<Stay> Take() { return std::move(all_); }

 private:
  std::vector<Stay> all_;
};

void TablePlan::Write(std::span<uint8_t> table) const {
  for (size_t i = 0; i < hooks_.size(); ++i) {
    const ImageChain& there = image_->built_in()[i];
    WriteHook(there, hooks_[i], info_.hook_entry[there.hook], table);
  }
  for (size_t i = 0; i < chains_.size(); ++i) {
    const Chain& chain = chains_[i];
    const ImageChain& there = image_->chains()[i];
    if (chain.fate == Fate::kGone) continue;
    if (chain.fate == Fate::kForeign)
      CopyForeign(there.begin, there.end, chain.rules - (there.rules - there.begin), table);
    else
      WriteChain(there.name, RulesOf(chain), chain.rules, table);
  }
  for (const uint32_t number : added_) {
    const WantedChain& added = wanted_->chain(number);
    WriteChain(added.name, added.rules, rules_of_[number], table);
  }
  const auto final = image_->bytes().subspan(image_->final());
  Copy(final, static_cast<uint32_t>(table.size() - final.size()), table);
}

void TablePlan::Patch(std::span<uint8_t> image) const {
  for (size_t i = 0; i < chains_.size(); ++i) {
    if (chains_[i].fate != Fate::kChanged) continue;
    const std::string name(image_->chains()[i].name);  // the view points into overwritten bytes
    WriteChain(name, RulesOf(chains_[i]), chains_[i].rules, image);
  }
}

void TablePlan::WriteSegment(const Segment& segment, uint32_t to, std::span<uint8_t> table) const {
  Copy(segment.bytes, to, table);
  for (const auto& relocation : segment.relocations)
    Store(table.data() + to + relocation.verdict, rules_of_[relocation.chain]);
}

/// `to`: offset of the first rule.
void TablePlan::WriteChain(std::string_view name, const Segment& rules, uint32_t to,
                           std::span<uint8_t> table) const {
  const uint32_t begin = to - static_cast<uint32_t>(head_.size());
  Copy(head_, begin, table);
  const size_t place_of_name = image_->shape().header + offsetof(xt_error_target, errorname);
  name.copy(reinterpret_cast<char*>(table.data()) + begin + place_of_name, kChainName);
  WriteSegment(rules, to, table);
  Copy(closing_, to + static_cast<uint32_t>(rules.bytes.size()), table);
}

/// Copies foreign entries of the image and adjusts their jumps to the new places of the chains.
void TablePlan::CopyForeign(uint32_t begin, uint32_t end, uint32_t to, std::span<uint8_t> table) const {
  Copy(image_->bytes().subspan(begin, end - begin), to, table);
  for (uint32_t offset = begin; offset < end;) {
    const uint32_t next = offset + image_->At(offset).size();
    const auto jump = image_->JumpAt(offset);  // Make() has checked it
    if (jump.value()) {
      const auto& [verdict, chain] = *jump.value();
      Store(table.data() + to + (verdict - begin),
            chain == kNone ? to + (next - begin) : chains_[chain].rules);
    }
    offset = next;
  }
}

void TablePlan::WriteHook(const ImageChain& there, const Hook& hook, uint32_t to,
                          std::span<uint8_t> table) const {
  if (hook.is_same) return CopyForeign(there.begin, there.end, to, table);
  const Segment& rules = wanted_->hook(there.hook).rules;
  WriteSegment(rules, to, table);
  to += static_cast<uint32_t>(rules.bytes.size());
  uint32_t begin = there.begin;
  const auto copy_until = [&](uint32_t end) {
    CopyForeign(begin, end, to, table);
    to += end - begin;
  };
  for (const uint32_t ours : hook.ours) {
    copy_until(ours);
    begin = ours + image_->At(ours).size();
  }
  copy_until(there.end);
}

std::vector<TablePlan::Stay> TablePlan::FindStays() const {
  Stays stays;
  for (size_t i = 0; i < hooks_.size(); ++i) {
    const ImageChain& there = image_->built_in()[i];
    if (hooks_[i].is_same)
      stays.Add(there.first_entry, hooks_[i].first_entry, there.entries);
    else
      FindStaysIn(there, hooks_[i], stays);
  }
  for (size_t i = 0; i < chains_.size(); ++i) {
    const ImageChain& there = image_->chains()[i];
    if (chains_[i].fate == Fate::kChanged)
      FindStaysIn(there, chains_[i], stays);
    else if (chains_[i].fate != Fate::kGone)
      stays.Add(there.first_entry, chains_[i].first_entry, there.entries);
  }
  return stays.Take();
}

void TablePlan::FindStaysIn(const ImageChain& there, const Chain& chain, Stays& stays) const {
  const Segment& segment = RulesOf(chain);
  std::vector<uint32_t> offsets;
  for (uint32_t offset = there.rules; offset < there.last; offset += image_->At(offset).size())
    offsets.push_back(offset);
  // In both the rules follow the ERROR entry, then the closing entry.
  const std::vector<uint32_t> matches = matcher().Match(segment, offsets);
  for (uint32_t rule = 0; rule < matches.size(); ++rule)
    if (matches[rule] != kNone)
      stays.Add(there.first_entry + 1 + matches[rule], chain.first_entry + 1 + rule, 1);
  stays.Add(there.first_entry + there.entries - 1, chain.first_entry + 1 + segment.entries, 1);
}

void TablePlan::FindStaysIn(const ImageChain& there, const Hook& hook, Stays& stays) const {
  const Segment& segment = wanted_->hook(there.hook).rules;
  std::vector<uint32_t> ours_entries;
  uint32_t from = there.first_entry;
  uint32_t to = hook.first_entry + segment.entries;
  auto ours = hook.ours.begin();
  for (uint32_t offset = there.begin; offset < there.end; offset += image_->At(offset).size(), ++from) {
    if (ours != hook.ours.end() && *ours == offset) {
      ours_entries.push_back(from);
      ++ours;
      continue;
    }
    stays.Add(from, to++, 1);
  }
  const std::vector<uint32_t> matches = matcher().Match(segment, hook.ours);
  for (uint32_t rule = 0; rule < matches.size(); ++rule)
    if (matches[rule] != kNone) stays.Add(ours_entries[matches[rule]], hook.first_entry + rule, 1);
}

}  // namespace viaduct::xtables
