#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "xtables/record.h"
#include "xtables/rule_encoder.h"
#include "xtables/table_image.h"

namespace viaduct::xtables {

/// Operations with their rules and texts. NB: [first_rule, first_rule + rule_count) is range-checked by the
/// caller.
struct Batch {
  std::span<const ChainRecord> ops;
  std::span<const RuleRecord> rules;
  std::span<const uint8_t> texts;
};

/// Encoded rules at rest. The verdict of a jump is zero; its relocation says where it leads.
struct Segment {
  struct Relocation {
    uint32_t verdict;  ///< offset in `bytes`
    uint32_t chain;    ///< number in the WantedTable

    bool operator==(const Relocation&) const = default;
  };
  std::vector<uint8_t> bytes;
  std::vector<Relocation> relocations;  ///< ascending
  uint32_t entries = 0;

  bool operator==(const Segment&) const = default;
};

/// Rules that are not encoded once and for all: this kernel could not have them when they came, or they name
/// a set, whose number may change.
struct RawRules {
  std::vector<RuleRecord> rules;
  std::shared_ptr<const std::vector<uint8_t>> texts;
};

/// One name of a chain. A name is known for as long as somebody wants, refuses or jumps to it.
struct WantedChain {
  enum class State : uint8_t {
    kNamed,     ///< only jumped to: whose it is we do not know
    kWanted,    ///< ours, with `rules`
    kUnwanted,  ///< to be taken out of the kernel's table
  };
  std::string name;
  State state = State::kNamed;
  uint32_t references = 0;  ///< relocations that lead here
  Segment rules;
};

/// What we want of a chain of the kernel.
struct WantedHook {
  bool is_set = false;  ///< false: nothing was ever said of it
  Segment rules;
  std::vector<Segment> former;  ///< what it had before, and the kernel's table may still have
};

/// A rule that the kernel does not take.
struct Refusal {
  std::string chain;
  uint32_t rule = 0;  ///< its place in the chain, or among the rules of ours in the kernel's chain
  Error error;
};

/// A chain that is to be removed, and that a foreign chain jumps to: it stays, without a rule.
struct KeptChain {
  std::string chain;
  std::string by;  ///< the foreign chain
};

/// What we want of a table. It changes at once; whether the kernel's table is so is not known here.
class WantedTable {
 public:
  /// Takes all of a batch, or, EINVAL, nothing of it: an operation or name that cannot be. Rules that cannot
  /// be encoded are kept as they are, until Complete().
  Status Change(const Batch& batch, RuleEncoder& encoder);
  /// Encodes what is not; the first error names its chain.
  Status Complete(RuleEncoder& encoder);
  /// Every rule that cannot be encoded.
  std::vector<Refusal> FindUnencodable(RuleEncoder& encoder);
  /// The kernel's table is as wanted: what was unwanted or former is forgotten.
  void Settle();

  /// kNone: the name is unknown. `guess` is looked at first: in tables that we wrote, numbers mostly ascend.
  uint32_t Find(std::string_view name, uint32_t guess) const;
  const WantedChain& chain(uint32_t number) const { return chains_[number]; }
  /// Numbers are below this; some are of no chain (kNamed, without references).
  uint32_t size() const { return static_cast<uint32_t>(chains_.size()); }
  const WantedHook& hook(uint32_t hook) const { return hooks_[hook]; }

 private:
  /// Where rules belong: a chain's number, or behind all of them a hook's.
  using Place = uint64_t;
  static constexpr Place kHooks = uint64_t{1} << 32;

  Segment& RulesAt(Place place);
  std::string NameOf(Place place) const;
  void Set(Place place, std::span<const RuleRecord> rules, std::span<const uint8_t> texts, const Texts& views,
           RuleEncoder& encoder);
  Status EncodeInto(Place place, std::span<const RuleRecord> rules, const Texts& texts, RuleEncoder& encoder);
  void Replace(Segment& old, Segment next);
  void Forget(const Segment& gone);
  void KeepFormer(WantedHook& hook);
  void Release(uint32_t number);
  uint32_t Intern(std::string_view name);

  std::deque<WantedChain> chains_;  ///< stable addresses: numbers_ points at the names
  std::vector<uint32_t> free_;
  std::unordered_map<std::string_view, uint32_t> numbers_;
  std::array<WantedHook, NF_INET_NUMHOOKS> hooks_ = {};
  std::unordered_map<Place, RawRules> raw_;
  std::vector<uint32_t> unwanted_;
  std::shared_ptr<const std::vector<uint8_t>> kept_texts_;  ///< of the batch in Change(), once it is needed
  EncodedRules scratch_;
};

}  // namespace viaduct::xtables
