#include "xtables/entry_builder.h"

#include <cassert>

namespace viaduct::xtables {

namespace {

/// Data of an ERROR target (xt_error_target without its header).
struct ErrorName {
  char name[XT_FUNCTION_MAXNAMELEN];
};

}  // namespace

void AddHead(const Shape& shape, std::string_view name, std::vector<uint8_t>& bytes) {
  assert(name.size() <= kChainName);
  EntryBuilder entry(shape, bytes);
  entry.SetTarget<ErrorName>(XT_ERROR_TARGET, 0, [&](ErrorName& data) { name.copy(data.name, kChainName); });
}

void AddReturn(const Shape& shape, std::vector<uint8_t>& bytes) {
  EntryBuilder entry(shape, bytes);
  entry.SetTarget<int32_t>(XT_STANDARD_TARGET, 0, [](int32_t& verdict) { verdict = kReturnVerdict; });
}

}  // namespace viaduct::xtables
