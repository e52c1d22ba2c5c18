#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"

namespace viaduct::nftables {

/// What an operation does (src/kernel/nftables/encode.ts verbs).
enum class Verb : uint32_t {
  kAdd,      ///< makes it unless it exists; a rule goes to the end, or behind its position
  kCreate,   ///< makes it, EEXIST when it exists
  kInsert,   ///< a rule, to the front, or before its position
  kReplace,  ///< a rule, by handle
  kDelete,   ///< a rule without a handle: all of its chain, or of its table; elements, none given: all
};

/// What an operation is about (src/kernel/nftables/encode.ts objects).
enum class Object : uint32_t { kTable, kChain, kRule, kSet, kNamedCounter, kElements };

/// The operation that is at fault when the transaction as a whole is.
inline constexpr uint32_t kNoOperation = 0xffffffff;
inline constexpr uint32_t kNoElement = 0xffffffff;

/// The messages of a transaction.
struct Batch {
  struct Message {
    size_t offset = 0;                    ///< in bytes
    uint32_t operation = kNoOperation;    ///< of the stream
    uint32_t first_element = kNoElement;  ///< of the operation's block, when it holds elements
    bool wants_handle = false;            ///< of the rule that it makes
  };

  std::vector<uint8_t> bytes;
  std::vector<Message> messages;

  /// Numbers the messages in order.
  void SetSequences(uint32_t first);
};

struct BatchOptions {
  uint32_t generation = 0;  ///< not 0: the kernel refuses the batch (ERESTART) when its ruleset is another
  bool is_dry_run = false;  ///< the kernel checks the operations and does nothing
};

/// The messages of a stream of operations: u32 verb, object, family (nfgenmsg), and 1 when the kernel shall
/// send the handle of the rule; then the object, or the block of elements. EINVAL: the stream is malformed.
/// EMSGSIZE, the text names the operation: one is larger than a message can be.
Result<Batch> BuildBatch(std::span<const uint8_t> operations, const BatchOptions& options);

}  // namespace viaduct::nftables
