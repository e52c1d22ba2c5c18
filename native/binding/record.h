#pragma once

#include <cstdint>

// The packed record that all batches answer with. Conventions: ipvs/record.h.

namespace viaduct::binding {

/// One failed record of a batch. Its text is part of RawOutcome's string (src/kernel/addon.ts).
struct FailureRecord {
  uint32_t index;
  int32_t code;  ///< errno, positive
  uint32_t text_offset;
  uint32_t text_length;
  uint8_t unknown;  ///< 1: the kernel's answer was lost, the record may have been applied
  uint8_t reserved[3];
};

}  // namespace viaduct::binding
