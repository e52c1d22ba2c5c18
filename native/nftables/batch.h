#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"

namespace viaduct::nftables {

/// The effect of an operation (src/kernel/nftables/encode.ts verbs).
enum class Verb : uint32_t {
  kAdd,      ///< creates the object unless it exists; appends a rule, or inserts it after its position
  kCreate,   ///< creates the object; EEXIST if it exists
  kInsert,   ///< inserts a rule at the start, or before its position
  kReplace,  ///< replaces a rule, by handle
  kDelete,   ///< without a handle: all rules of the chain or table; without elements: all elements of the set
};

/// The kind of object of an operation (src/kernel/nftables/encode.ts objects).
enum class Object : uint32_t { kTable, kChain, kRule, kSet, kNamedCounter, kElements };

/// Flags of an operation (src/kernel/nftables/encode.ts).
enum OperationFlag : uint32_t {
  kWantsHandle = 1,  ///< the kernel sends the new rule's handle
  /// The next operation has the same index: this one makes an anonymous set, or its elements, for that rule.
  kIsPartOfNext = 2,
};

/// In place of an operation's index: the transaction as a whole.
inline constexpr uint32_t kNoOperation = 0xffffffff;
inline constexpr uint32_t kNoElement = 0xffffffff;

/// The messages of a transaction.
struct Batch {
  struct Message {
    size_t offset = 0;                    ///< in Batch::bytes
    uint32_t operation = kNoOperation;    ///< index in the stream
    uint32_t first_element = kNoElement;  ///< index in the operation's block; kNoElement: not of elements
    bool wants_handle = false;            ///< the caller requested the handle of the new rule
  };

  std::vector<uint8_t> bytes;
  std::vector<Message> messages;

  /// Gives the messages consecutive sequence numbers.
  void SetSequences(uint32_t first);
};

struct BatchOptions {
  uint32_t generation = 0;  ///< not 0: the kernel refuses the batch (ERESTART) if its generation differs
  bool is_dry_run = false;  ///< the kernel checks the operations and applies none
};

/// The messages for a stream of operations. An operation is u32 verb, u32 object, u32 family (nfgenmsg), u32
/// OperationFlag, then the object or the block of elements. EINVAL: the
/// stream is malformed. EMSGSIZE: an operation does not fit a message. The text of either names the
/// operation.
Result<Batch> BuildBatch(std::span<const uint8_t> operations, const BatchOptions& options);

}  // namespace viaduct::nftables
