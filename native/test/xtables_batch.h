#pragma once

#include <netinet/in.h>

#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "xtables/record.h"
#include "xtables/wanted_table.h"

namespace viaduct::xtables {

/// Writes the records of a batch; a rule belongs to the operation begun last.
class BatchBuilder {
 public:
  BatchBuilder& Begin(Op op, std::string_view name) {
    ops_.push_back({Text(name), static_cast<uint32_t>(rules_.size()), 0, static_cast<uint8_t>(op), {}});
    return *this;
  }
  BatchBuilder& SetChain(std::string_view name) { return Begin(Op::kSetChain, name); }
  BatchBuilder& RemoveChain(std::string_view name) { return Begin(Op::kRemoveChain, name); }
  BatchBuilder& SetHook(std::string_view name) { return Begin(Op::kSetHook, name); }

  /// A rule that matches everything. NB: the reference lives until the next call.
  RuleRecord& Rule(Target target) {
    RuleRecord rule;
    memset(&rule, 0, sizeof rule);
    rule.in_interface = rule.out_interface = rule.comment = kNoText;
    rule.target_chain = rule.recent_list = rule.set_name = kNoText;
    rule.target = static_cast<uint8_t>(target);
    ++ops_.back().rule_count;
    return rules_.emplace_back(rule);
  }
  RuleRecord& JumpTo(std::string_view chain, Target target = Target::kJump) {
    const uint32_t text = Text(chain);
    RuleRecord& rule = Rule(target);
    rule.target_chain = text;
    return rule;
  }
  /// A jump to `chain` for the destination 10.0.0.`last`.
  BatchBuilder& To(uint8_t last, std::string_view chain) {
    Destination(JumpTo(chain), {10, 0, 0, last}, 32);
    return *this;
  }
  BatchBuilder& Accept(uint8_t last) {
    Destination(Rule(Target::kAccept), {10, 0, 0, last}, 32);
    return *this;
  }

  static void Destination(RuleRecord& rule, std::initializer_list<uint8_t> address, uint8_t prefix) {
    std::copy(address.begin(), address.end(), rule.destination);
    rule.destination_prefix = prefix;
  }

  uint32_t Text(std::string_view text) {
    texts_.insert(texts_.end(), text.begin(), text.end());
    texts_.push_back(0);
    return text_count_++;
  }
  std::vector<RuleRecord>& rules() { return rules_; }
  Texts texts() const { return Texts(texts_); }
  Batch batch() const { return {ops_, rules_, texts_}; }

 private:
  std::vector<ChainRecord> ops_;
  std::vector<RuleRecord> rules_;
  std::vector<uint8_t> texts_;
  uint32_t text_count_ = 0;
};

}  // namespace viaduct::xtables
