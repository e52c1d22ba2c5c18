#include "xtables/rule_matcher.h"

#include <string_view>
#include <unordered_map>

#include "core/seeded_hash.h"

namespace viaduct::xtables {

bool RuleMatcher::IsSame(const Rule& rule, uint32_t offset) const {
  // The header holds the size: comparing it first protects the reads after it.
  const uint8_t* there = image_->bytes().data() + offset;
  if (!IsSameEntry(image_->shape(), rule.bytes, there, rule.size, rule.verdict)) return false;
  if (rule.verdict == 0) return true;
  const uint32_t target = image_of_[rule.chain];
  return target != kNone && Load<uint32_t>(there + rule.verdict) == image_->chains()[target].rules;
}

bool RuleMatcher::IsSame(const Segment& segment, uint32_t begin, uint32_t end) const {
  if (segment.bytes.size() != end - begin) return false;
  uint32_t offset = begin;
  ForEach(segment, [&](const Rule& rule) {
    if (!IsSame(rule, offset)) return false;
    offset += rule.size;
    return true;
  });
  return offset == end;
}

bool RuleMatcher::HasRule(const Segment& segment, uint32_t offset) const {
  bool found = false;
  ForEach(segment, [&](const Rule& rule) {
    found = IsSame(rule, offset);
    return !found;
  });
  return found;
}

/// Hashes the compared bytes without the verdicts of jumps, which differ from table to table.
uint64_t RuleMatcher::Hash(const uint8_t* rule, uint16_t size, uint16_t verdict) const {
  const Shape& shape = image_->shape();
  const auto* text = reinterpret_cast<const char*>(rule);
  const size_t end = verdict == 0 ? size : verdict;
  return SeededHash()
      .Add(std::string_view(text, shape.comefrom))
      .Add(std::string_view(text + shape.header, end - shape.header))
      .value();
}

std::vector<uint32_t> RuleMatcher::Match(const Segment& segment, std::span<const uint32_t> offsets) const {
  std::unordered_multimap<uint64_t, uint32_t> free;
  for (uint32_t i = 0; i < offsets.size(); ++i) {
    const EntryView entry = image_->At(offsets[i]);
    const auto verdict = entry.VerdictOffset();
    const bool is_jump = verdict && Load<int32_t>(entry.bytes() + *verdict) >= 0;
    free.emplace(Hash(entry.bytes(), entry.size(), is_jump ? static_cast<uint16_t>(*verdict) : 0), i);
  }
  std::vector<uint32_t> matches;
  matches.reserve(segment.entries);
  ForEach(segment, [&](const Rule& rule) {
    matches.push_back(kNone);
    auto [at, end] = free.equal_range(Hash(rule.bytes, rule.size, rule.verdict));
    for (; at != end; ++at) {
      if (!IsSame(rule, offsets[at->second])) continue;
      matches.back() = at->second;
      free.erase(at);
      break;
    }
    return true;
  });
  return matches;
}

}  // namespace viaduct::xtables
