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

/// A table according to GET_INFO.
struct TableInfo {
  uint32_t valid_hooks = 0;
  std::array<uint32_t, NF_INET_NUMHOOKS> hook_entry = {};
  std::array<uint32_t, NF_INET_NUMHOOKS> underflow = {};
  uint32_t entries = 0;
  uint32_t bytes = 0;

  bool operator==(const TableInfo&) const = default;
};

/// "PREROUTING"; null for an unknown hook.
const char* HookName(uint32_t hook);

/// A run of entries, as offsets into the table.
struct ImageChain {
  std::string_view name;  ///< points into the table; HookName() for a built-in chain
  uint32_t begin;         ///< user chain: the ERROR entry
  uint32_t rules;         ///< first rule, the target of jumps
  uint32_t last;          ///< the closing entry: RETURN, or the policy
  uint32_t end;
  uint32_t first_entry;  ///< number of the entry at `begin`
  uint32_t entries;      ///< ERROR and closing entry included
  uint32_t hook;         ///< kNone: a user chain
};

/// The entries of a table as read from the kernel, split into chains. A view: does not own the bytes.
/// ```
/// built-in chains, by hook: rules, policy | user chains: ERROR "name", rules, RETURN | ERROR "ERROR"
/// ```
class TableImage {
 public:
  /// Checks all bytes. EPROTO: not a table; the text has the byte offset.
  static Result<TableImage> Parse(const Shape& shape, std::span<const uint8_t> bytes, const TableInfo& info);

  const Shape& shape() const { return *shape_; }
  std::span<const uint8_t> bytes() const { return bytes_; }
  const std::vector<ImageChain>& built_in() const { return built_in_; }
  const std::vector<ImageChain>& chains() const { return chains_; }
  /// Offset of the ERROR entry that ends the table.
  uint32_t final() const { return final_; }
  uint32_t entries() const { return entries_; }

  EntryView At(uint32_t offset) const { return {*shape_, bytes_.data() + offset}; }

  /// The target of a jump.
  struct Jump {
    uint32_t verdict;  ///< offset of the verdict in the table
    uint32_t chain;    ///< number among chains(); kNone: to the next entry (a rule without a target)
  };
  /// Nothing: the entry does not jump. EPROTO: it jumps to no chain.
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
