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
#include "core/seeded_hash.h"
#include "xtables/record.h"
#include "xtables/rule_encoder.h"
#include "xtables/table_image.h"

namespace viaduct::xtables {

/// Operations with their rules and texts. NB: the caller checks the range [first_rule, first_rule +
/// rule_count).
struct Batch {
  std::span<const ChainRecord> ops;
  std::span<const RuleRecord> rules;
  std::span<const uint8_t> texts;
};

/// Encoded rules without a place in a table. The verdict of a jump is zero; its relocation has the target.
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

/// Rules to encode again later: the kernel lacked a match or target, or they use a set, whose index may
/// change.
struct RawRules {
  std::vector<RuleRecord> rules;
  std::shared_ptr<const std::vector<uint8_t>> texts;
};

/// One name of a chain. It exists while the chain is desired or to be removed, or while a rule jumps to it.
struct WantedChain {
  enum class State : uint8_t {
    kNamed,     ///< only the target of jumps; the owner is unknown
    kWanted,    ///< desired, with `rules`
    kUnwanted,  ///< to be removed from the kernel's table
  };
  std::string name;
  State state = State::kNamed;
  bool is_new = false;      ///< an operation has named it since Settle()
  uint32_t references = 0;  ///< relocations to this chain
  Segment rules;
};

/// Desired rules of a built-in chain.
struct WantedHook {
  bool is_set = false;  ///< false: no operation has set it
  bool is_new = false;  ///< an operation has named it since Settle()
  Segment rules;
  std::vector<Segment> former;  ///< earlier rules that the kernel's table may still have
};

/// A rule that the kernel refuses.
struct Refusal {
  std::string chain;
  uint32_t rule = 0;  ///< index in the chain; in a built-in chain, among Viaduct's rules
  Error error;
};

/// A chain that should be removed while a foreign chain jumps to it. It stays without rules.
struct KeptChain {
  std::string chain;
  std::string by;  ///< the foreign chain
};

/// The desired content of a table. Knows nothing about the kernel's table.
class WantedTable {
 public:
  /// Applies a batch as a whole. EINVAL: an operation or name is not valid, and nothing has changed. Rules
  /// that cannot be encoded are kept as records until Complete().
  Status Change(const Batch& batch, RuleEncoder& encoder);
  /// Encodes the remaining records. The first error names its chain.
  Status Complete(RuleEncoder& encoder);
  /// Every rule that cannot be encoded.
  std::vector<Refusal> FindUnencodable(RuleEncoder& encoder);
  /// To be called when the kernel's table is as desired: drops removed chains and earlier rules.
  void Settle();

  /// kNone: the name is unknown. Tries `guess` first: in tables that Viaduct wrote, numbers mostly ascend.
  uint32_t Find(std::string_view name, uint32_t guess) const;
  const WantedChain& chain(uint32_t number) const { return chains_[number]; }
  /// Upper bound of the numbers. Unused numbers are kNamed, without references.
  uint32_t size() const { return static_cast<uint32_t>(chains_.size()); }
  const WantedHook& hook(uint32_t hook) const { return hooks_[hook]; }

 private:
  /// The owner of rules: a chain's number, or kHooks plus a hook's.
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

  std::deque<WantedChain> chains_;  ///< stable addresses: numbers_ points to the names
  std::vector<uint32_t> free_;
  std::unordered_map<std::string_view, uint32_t, TextHash> numbers_;
  std::array<WantedHook, NF_INET_NUMHOOKS> hooks_ = {};
  std::unordered_map<Place, RawRules> raw_;
  std::vector<uint32_t> unwanted_;
  std::vector<uint32_t> new_;                               ///< numbers of the chains with is_new
  std::shared_ptr<const std::vector<uint8_t>> kept_texts_;  ///< texts of the batch in Change(), if needed
  EncodedRules scratch_;
};

}  // namespace viaduct::xtables
