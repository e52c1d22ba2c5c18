#pragma once

#include <cstdint>
#include <span>

// Packed records of sets and their entries. Conventions: ipvs/record.h.

namespace viaduct::ipset {

/// The request of an OpRecord.
enum class Op : uint8_t {
  kCreateSet = 1,
  kDestroySet = 2,
  kFlushSet = 3,
  kSwapSets = 4,
  kRenameSet = 5,
  kAddEntry = 6,
  kDeleteEntry = 7,
};

/// Bits of SetRecord::extensions.
enum Extension : uint8_t {
  kMarks = 1,
  kComments = 2,
};

/// A set: the settings to create it with; in a listing also its state.
struct SetRecord {
  char name[32];          ///< NUL padded; IPSET_MAXNAMELEN
  char type[32];          ///< type name of the kernel, NUL padded; empty in ops that need only the set's name
  uint32_t max_elements;  ///< the range of a bitmap in a listing; 0: a type without a limit
  uint32_t hash_size;     ///< buckets: initial in a batch, current in a listing; 0: no hash
  uint32_t references;    ///< listing: rules and sets that refer to the set
  uint32_t element_count;  ///< listing
  uint8_t family;          ///< AF_INET or AF_INET6; 0 in a listing: a set without addresses
  uint8_t extensions;      ///< bits of Extension
  uint8_t reserved[2];
};

/// An entry of a set. The set's type decides which fields it has.
struct EntryRecord {
  uint8_t address[16];
  uint8_t second_address[16];
  uint32_t mark;  ///< no mark where mark_mask is 0
  uint32_t mark_mask;
  uint32_t comment_offset;  ///< batch: byte offset in Batch::texts
  uint16_t port;
  uint8_t family;          ///< of the addresses; 0: no address
  uint8_t protocol;        ///< IPPROTO_*
  uint8_t prefix_length;   ///< of the network: `address` in hash:net, `second_address` in hash:ip,port,net
  uint8_t comment_length;  ///< batch: 0 for none
  uint8_t is_exception;    ///< listing: 1 for an entry with `nomatch`
  uint8_t reserved;
};

/// One operation of a batch: indices into the batch's tables.
struct OpRecord {
  uint32_t set;
  uint32_t object;  ///< the entry, the other set of a swap, or the new name of a rename; otherwise 0
  Op op;
  uint8_t reserved[3];
};

/// Operations in order, without rollback. NB: the caller checks the indices and offsets.
struct Batch {
  std::span<const OpRecord> ops;
  std::span<const SetRecord> sets;
  std::span<const EntryRecord> entries;
  std::span<const uint8_t> texts;  ///< comments
};

constexpr bool IsEntryOp(Op op) { return op == Op::kAddEntry || op == Op::kDeleteEntry; }

}  // namespace viaduct::ipset
