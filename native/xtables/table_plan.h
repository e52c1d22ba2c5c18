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

/// What is wanted and not there, by chain; the kernel's own chains too.
struct Drift {
  std::vector<std::string> missing;
  std::vector<std::string> changed;
};

/// What the kernel's table must become: everything foreign as it is, and what we want. Both inputs outlive
/// it, unchanged.
class TablePlan {
 public:
  /// ENOENT: a chain of ours jumps to one that is not there. EPROTO: the image is no table. `prune`:
  /// chains that go unless they are wanted: names, prefixes (`KUBE-SVC-*`), and names of chains that go only
  /// while they have no rules and no foreign chain jumps to them (`KUBE-MARK-DROP?`).
  static Result<TablePlan> Make(const TableImage& image, const WantedTable& wanted,
                                std::span<const std::string> prune);

  /// The image is as it should be.
  bool is_done() const { return is_done_; }
  Drift FindDrift() const;
  /// Chains that are to be removed, and are emptied until no foreign chain jumps to them.
  const std::vector<KeptChain>& kept() const { return kept_; }
  /// What GET_INFO will say of the new table.
  const TableInfo& info() const { return info_; }
  /// Writes the new table, info().bytes long and zero, with every jump at its place.
  void Write(std::span<uint8_t> table) const;
  /// Every chain keeps its place: Patch() will do.
  bool is_in_place() const { return is_in_place_; }
  /// Turns the image's own memory into the new table. NB: the image is of no use then, nor is the plan.
  void Patch(std::span<uint8_t> image) const;

  /// Entries in a row that stay, by their numbers in the image and in the new table.
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
    bool is_shared = false;   ///< goes only if no foreign chain jumps to it
    bool is_kept = false;     ///< ours, and has no rules
    uint32_t wanted = kNone;  ///< its number, of a wanted one
    uint32_t rules = kNone;   ///< offset in the new table; kNone: gone
    uint32_t first_entry = 0;
  };
  /// A chain of the kernel.
  struct Hook {
    std::vector<uint32_t> ours;  ///< offsets of rules in the image
    bool is_same = true;
    uint32_t first_entry = 0;
  };

  TablePlan(const TableImage& image, const WantedTable& wanted);
  void MatchChains(std::span<const std::string> prune);
  Status KeepReferenced();
  void Spare(uint32_t target, std::string_view by);
  Status SortHook(const ImageChain& there, Hook& hook) const;
  Result<bool> IsOurs(uint32_t offset, const WantedHook& wanted) const;
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
  std::vector<uint32_t> image_of_;  ///< chain of the image, by number of the wanted table; kNone: not there
  std::vector<uint32_t>
      rules_of_;                 ///< offset in the new table, by number of the wanted table; kNone: not there
  std::vector<uint32_t> added_;  ///< wanted chains that the image has not
  std::vector<Chain> chains_;    ///< as image.chains()
  std::vector<Hook> hooks_;      ///< as image.built_in()
  std::vector<KeptChain> kept_;
  Segment no_rules_;
  std::vector<uint8_t> head_;     ///< the entry that begins a chain of ours, still without its name
  std::vector<uint8_t> closing_;  ///< the one that ends it
  TableInfo info_;
  bool is_done_ = false;
  bool is_in_place_ = false;
};

}  // namespace viaduct::xtables
