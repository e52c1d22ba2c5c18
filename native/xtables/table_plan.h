#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "xtables/rule_matcher.h"
#include "xtables/table_image.h"
#include "xtables/wanted_table.h"

namespace viaduct::xtables {

/// Chains that are missing or differ from the desired ones; built-in chains included.
struct Drift {
  std::vector<std::string> missing;
  std::vector<std::string> changed;
};

/// The kernel's next table: all foreign entries unchanged, and the desired chains. NB: both inputs must
/// outlive it unchanged.
class TablePlan {
 public:
  /// ENOENT: a desired chain jumps to an absent one. EPROTO: the image is not a table. `prune`: chains to
  /// remove unless they are desired: names, prefixes (`KUBE-SVC-*`), and names of chains to remove only
  /// if they have no rules and no foreign chain jumps to them (`KUBE-MARK-DROP?`).
  static Result<TablePlan> Make(const TableImage& image, const WantedTable& wanted,
                                std::span<const std::string> prune);

  /// Whether the image is as desired.
  bool is_done() const { return is_done_; }
  Drift FindDrift() const;
  /// The part of FindDrift() that no operation since the last Settle() and no pattern requires.
  Drift FindRepairs() const;
  /// Chains that should be removed while a foreign chain jumps to them. They stay without rules.
  const std::vector<KeptChain>& kept() const { return kept_; }
  /// GET_INFO of the new table.
  const TableInfo& info() const { return info_; }
  /// Writes the new table into `table`, which has info().bytes zeroed bytes.
  void Write(std::span<uint8_t> table) const;
  /// Whether every chain keeps its place: then Patch() suffices.
  bool is_in_place() const { return is_in_place_; }
  /// Turns the image's memory into the new table. NB: image and plan are invalid afterwards.
  void Patch(std::span<uint8_t> image) const;

  /// Consecutive entries that stay, by their numbers in the image and in the new table.
  struct Stay {
    uint32_t from;
    uint32_t to;
    uint32_t count;
  };
  std::vector<Stay> FindStays() const;

 private:
  enum class Fate : uint8_t { kForeign, kSame, kChanged, kGone };
  /// A user chain of the image.
  struct Chain {
    Fate fate = Fate::kForeign;
    bool is_shared = false;   ///< removed only if no foreign chain jumps to it
    bool is_kept = false;     ///< Viaduct's, without rules
    uint32_t wanted = kNone;  ///< number of the desired chain
    uint32_t rules = kNone;   ///< offset in the new table; kNone: removed
    uint32_t first_entry = 0;
  };
  /// A built-in chain.
  struct Hook {
    std::vector<uint32_t> ours;  ///< offsets of rules in the image
    bool is_same = true;
    bool is_other = false;  ///< Viaduct's rules differ, even without the jumps to chains that are removed
    uint32_t first_entry = 0;
  };

  TablePlan(const TableImage& image, const WantedTable& wanted);
  bool IsClosed(const ImageChain& there) const;
  void MatchChains(std::span<const std::string> prune);
  Status KeepReferenced();
  void Spare(uint32_t target, std::string_view by);
  Status SortHook(const ImageChain& there, Hook& hook) const;
  /// The owner of a rule of a hook. kGone: it jumps to a chain that is removed or emptied.
  enum class Owner : uint8_t { kOther, kOurs, kGone };
  Result<Owner> FindOwner(uint32_t offset, const WantedHook& wanted) const;
  bool IsSame(const Segment& rules, std::span<const uint32_t> there) const;
  void CompareChains();
  void Place();
  uint32_t PlaceHook(const ImageChain& there, Hook& hook, uint32_t offset);
  Status CheckWanted() const;
  Status CheckJumps(const Segment& segment, std::string_view owner) const;

  RuleMatcher matcher() const { return {*image_, image_of_}; }
  const Segment& RulesOf(const Chain& chain) const;
  void WriteHook(const ImageChain& there, const Hook& hook, uint32_t to, std::span<uint8_t> table) const;
  void WriteSegment(const Segment& segment, uint32_t to, std::span<uint8_t> table) const;
  void WriteChain(std::string_view name, const Segment& rules, uint32_t to, std::span<uint8_t> table) const;
  void CopyForeign(uint32_t begin, uint32_t end, uint32_t to, std::span<uint8_t> table) const;
  class Stays;
  void FindStaysIn(const ImageChain& there, const Chain& chain, Stays& stays) const;
  void FindStaysIn(const ImageChain& there, const Hook& hook, Stays& stays) const;

  const TableImage* image_;
  const WantedTable* wanted_;
  std::vector<uint32_t> image_of_;  ///< chain of the image, by number of the wanted table; kNone: absent
  std::vector<uint32_t> rules_of_;  ///< offset in the new table, by number of the wanted table; kNone: absent
  std::vector<uint32_t> added_;     ///< desired chains that the image lacks
  std::vector<Chain> chains_;       ///< parallel to image.chains()
  std::vector<Hook> hooks_;         ///< parallel to image.built_in()
  std::vector<KeptChain> kept_;
  Segment no_rules_;
  std::vector<uint8_t> head_;     ///< first entry of a desired chain, still without its name
  std::vector<uint8_t> closing_;  ///< last entry of a desired chain
  TableInfo info_;
  bool is_done_ = false;
  bool is_in_place_ = false;
};

}  // namespace viaduct::xtables
