#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The packed records that cross between TypeScript and C++ (src/kernel/records.ts mirrors them and checks
// itself against `layout` at load). Little endian, host byte order for every number, padding zero. Addresses
// are 16 bytes in network order; IPv4 uses the first four, the rest is zero.

namespace viaduct::ipset {

/// What an OpRecord asks for. Numbers are part of the boundary.
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
inline constexpr uint8_t kMarks = 1;
inline constexpr uint8_t kComments = 2;

/// A set: what it is made with, and in a listing what the kernel says of it.
struct SetRecord {
  char name[32];  ///< NUL padded; IPSET_MAXNAMELEN
  char type[32];  ///< the kernel's name of it, NUL padded; may be empty where an op needs the name only
  uint32_t max_elements;   ///< of a bitmap in a listing: its range; 0: the type has no limit of this kind
  uint32_t hash_size;      ///< initial buckets in a batch, as they are in a listing; 0: no hash
  uint32_t references;     ///< listing: rules and sets that refer to it
  uint32_t element_count;  ///< listing
  uint8_t family;          ///< AF_INET or AF_INET6; a listing says 0 of a set without addresses
  uint8_t extensions;      ///< kMarks, kComments
  uint8_t reserved[2];
};
static_assert(sizeof(SetRecord) == 84);
static_assert(offsetof(SetRecord, max_elements) == 64 && offsetof(SetRecord, family) == 80);

/// One member; which fields it has follows from the set's type.
struct EntryRecord {
  uint8_t address[16];
  uint8_t second_address[16];
  uint32_t mark;  ///< with mark_mask 0: none
  uint32_t mark_mask;
  uint32_t comment_offset;  ///< batch: in its texts
  uint16_t port;
  uint8_t family;          ///< of the addresses; 0 of an entry without any
  uint8_t protocol;        ///< IPPROTO_*
  uint8_t prefix_length;   ///< of the network: the address of hash:net, the second one of hash:ip,port,net
  uint8_t comment_length;  ///< batch: 0 for none
  uint8_t is_exception;    ///< listing: 1 for what the tool calls nomatch
  uint8_t reserved;
};
static_assert(sizeof(EntryRecord) == 52);
static_assert(offsetof(EntryRecord, mark) == 32 && offsetof(EntryRecord, port) == 44);

/// One request of a batch: indices into its tables.
struct OpRecord {
  uint32_t set;
  uint32_t object;  ///< the entry, or the other set of a swap and the new name of a rename; else 0
  Op op;
  uint8_t reserved[3];
};
static_assert(sizeof(OpRecord) == 12);

/// Operations in order, each on its own (no rollback). NB: what it points to is checked by the caller.
struct Batch {
  std::span<const OpRecord> ops;
  std::span<const SetRecord> sets;
  std::span<const EntryRecord> entries;
  std::span<const uint8_t> texts;  ///< comments
};

constexpr bool IsEntryOp(Op op) { return op == Op::kAddEntry || op == Op::kDeleteEntry; }

}  // namespace viaduct::ipset
