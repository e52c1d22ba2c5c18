#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "xtables/entry.h"
#include "xtables/shape.h"

namespace viaduct::xtables {

inline constexpr uint32_t kNone = 0xffffffff;

/// What GET_INFO says of a table.
struct TableInfo {
  uint32_t valid_hooks = 0;
  std::array<uint32_t, NF_INET_NUMHOOKS> hook_entry = {};
  std::array<uint32_t, NF_INET_NUMHOOKS> underflow = {};
  uint32_t entries = 0;
  uint32_t bytes = 0;

  bool operator==(const TableInfo&) const = default;
};

/// "PREROUTING"; null where there is no such hook.
const char* HookName(uint32_t hook);

/// A run of entries, as offsets into the table.
struct ImageChain {
  std::string_view name;  ///< lies in the table; of a chain of the kernel: HookName()
  uint32_t begin;         ///< user chain: its ERROR entry
  uint32_t rules;         ///< first rule: where jumps lead
  uint32_t last;          ///< the closing entry: RETURN, or the policy
  uint32_t end;
  uint32_t first_entry;  ///< number of the entry at `begin`
  uint32_t entries;      ///< with ERROR and closing entry
  uint32_t hook;         ///< kNone: a user chain
};

/// The entries of a table that the kernel handed out, cut into chains. Holds no memory of them.
/// ```
/// chains of the kernel, by hook: rules, policy | user chains: ERROR "name", rules, RETURN | ERROR "ERROR"
/// ```
class TableImage {
 public:
  /// Never trusts the bytes. EPROTO: the text says at which byte they are no table.
  static Result<TableImage> Parse(const Shape& shape, std::span<const uint8_t> bytes, const TableInfo& info);

  const Shape& shape() const { return *shape_; }
  std::span<const uint8_t> bytes() const { return bytes_; }
  const std::vector<ImageChain>& built_in() const { return built_in_; }
  const std::vector<ImageChain>& chains() const { return chains_; }
  /// Offset of the ERROR entry that ends the table.
  uint32_t final() const { return final_; }
  uint32_t entries() const { return entries_; }

  EntryView At(uint32_t offset) const { return {*shape_, bytes_.data() + offset}; }

  /// Where an entry leads.
  struct Jump {
    uint32_t verdict;  ///< offset of its verdict in the table
    uint32_t chain;    ///< number among chains(); kNone: to the next entry (a rule without a target)
  };
  /// Nothing: the entry leads nowhere. EPROTO: into the middle of nowhere.
  Result<std::optional<Jump>> JumpAt(uint32_t offset) const;

 private:
  struct Walker;
  TableImage(const Shape& shape, std::span<const uint8_t> bytes) : shape_(&shape), bytes_(bytes) {}
  uint32_t FindChain(uint32_t rules) const;

  const Shape* shape_;
  std::span<const uint8_t> bytes_;
  std::vector<ImageChain> built_in_;
  std::vector<ImageChain> chains_;
  uint32_t final_ = 0;
  uint32_t entries_ = 0;
};

}  // namespace viaduct::xtables
