#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xtables/table_image.h"
#include "xtables/wanted_table.h"

namespace viaduct::xtables {

/// Compares encoded rules with those of an image. Two jumps are equal if their chains have the same name.
class RuleMatcher {
 public:
  /// `image_of`: the image's number of each chain of the WantedTable; kNone: absent. NB: both must outlive
  /// this.
  RuleMatcher(const TableImage& image, std::span<const uint32_t> image_of)
      : image_(&image), image_of_(image_of) {}

  /// A rule of a segment.
  struct Rule {
    const uint8_t* bytes;
    uint16_t size;
    uint16_t verdict;  ///< offset in the rule; 0: no jump
    uint32_t chain;    ///< target of the jump
  };
  /// Calls `on_rule` with each rule, in order, until it returns false.
  template <typename OnRule>
  void ForEach(const Segment& segment, OnRule on_rule) const;

  bool IsSame(const Rule& rule, uint32_t offset) const;
  /// Whether [begin, end) of the image has exactly these rules.
  bool IsSame(const Segment& segment, uint32_t begin, uint32_t end) const;
  bool HasRule(const Segment& segment, uint32_t offset) const;

  /// For each rule of the segment its entry in the image: an index of `offsets`, or kNone. No entry is used
  /// twice.
  std::vector<uint32_t> Match(const Segment& segment, std::span<const uint32_t> offsets) const;

 private:
  uint64_t Hash(const uint8_t* rule, uint16_t size, uint16_t verdict) const;

  const TableImage* image_;
  std::span<const uint32_t> image_of_;
};

template <typename OnRule>
void RuleMatcher::ForEach(const Segment& segment, OnRule on_rule) const {
  auto relocation = segment.relocations.begin();
  for (uint32_t at = 0; at < segment.bytes.size();) {
    Rule rule{segment.bytes.data() + at, EntryView(image_->shape(), segment.bytes.data() + at).size(), 0,
              kNone};
    if (relocation != segment.relocations.end() && relocation->verdict < at + rule.size) {
      rule.verdict = static_cast<uint16_t>(relocation->verdict - at);
      rule.chain = relocation->chain;
      ++relocation;
    }
    if (!on_rule(rule)) return;
    at += rule.size;
  }
}

}  // namespace viaduct::xtables
