#include "xtables/table_image.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>

namespace viaduct::xtables {

namespace {

constexpr const char* kHookNames[NF_INET_NUMHOOKS] = {"PREROUTING", "INPUT", "FORWARD", "OUTPUT",
                                                      "POSTROUTING"};

Error Malformed(const char* what, uint32_t offset) {
  return {EPROTO, "read the table's entries", std::string(what) + " at byte " + std::to_string(offset)};
}

/// Prefetches the next entries. Each entry holds the offset of the next one, so every step would wait for
/// memory.
void FetchAhead(std::span<const uint8_t> bytes, size_t offset) {
  constexpr size_t kAhead = 1024;
  constexpr size_t kLine = 64;
  const size_t end = std::min(bytes.size(), offset + kAhead + 4 * kLine);
  for (size_t line = offset + kAhead; line < end; line += kLine) __builtin_prefetch(&bytes[line]);
}

/// The only entry that the kernel accepts as a policy (check_underflow()).
bool IsPolicy(const EntryView& entry) {
  const auto at = entry.VerdictOffset();
  if (!at) return false;
  const auto verdict = Load<int32_t>(entry.bytes() + *at);
  return verdict == kAcceptVerdict || verdict == kDropVerdict;
}

}  // namespace

const char* HookName(uint32_t hook) { return hook < NF_INET_NUMHOOKS ? kHookNames[hook] : nullptr; }

/// One pass over the entries. `open` is the current chain.
struct TableImage::Walker {
  TableImage& image;
  const TableInfo& info;
  ImageChain open = {};
  bool is_open = false;
  uint32_t previous = 0;  ///< the previous entry

  Status Step(uint32_t offset);
  Status OpenBuiltIn(uint32_t hook, uint32_t offset);
  Status OpenUser(std::string_view name, uint32_t offset);
  Status CloseUser(uint32_t end);
  void Close(uint32_t last, uint32_t end, uint32_t entries, std::vector<ImageChain>& chains);
  uint32_t HookAt(uint32_t offset) const;
};

uint32_t TableImage::Walker::HookAt(uint32_t offset) const {
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook)
    if ((info.valid_hooks >> hook & 1) != 0 && info.hook_entry[hook] == offset) return hook;
  return kNone;
}

Status TableImage::Walker::OpenBuiltIn(uint32_t hook, uint32_t offset) {
  if (is_open || !image.chains_.empty()) return Malformed("a hook enters another chain", offset);
  open = {HookName(hook), offset, offset, 0, 0, image.entries_, 0, hook};
  is_open = true;
  return Ok();
}

void TableImage::Walker::Close(uint32_t last, uint32_t end, uint32_t entries,
                               std::vector<ImageChain>& chains) {
  open.last = last;
  open.end = end;
  open.entries = entries - open.first_entry;
  chains.push_back(open);
  is_open = false;
}

Status TableImage::Walker::CloseUser(uint32_t end) {
  if (!is_open) return Ok();
  if (open.hook != kNone) return Malformed("a chain of the kernel does not end", end);
  if (previous == open.begin) return Malformed("an empty chain ends", end);
  Close(previous, end, image.entries_, image.chains_);
  return Ok();
}

Status TableImage::Walker::OpenUser(std::string_view name, uint32_t offset) {
  const uint32_t rules = offset + image.At(offset).size();
  open = {name, offset, rules, 0, 0, image.entries_, 0, kNone};
  is_open = true;
  return Ok();
}

Status TableImage::Walker::Step(uint32_t offset) {
  const EntryView entry = image.At(offset);
  const uint32_t end = offset + entry.size();
  const uint32_t hook = HookAt(offset);
  if (hook != kNone) {
    Status opened = OpenBuiltIn(hook, offset);
    if (!opened.ok()) return opened;
  }
  if (const auto name = entry.ErrorName()) {
    Status closed = CloseUser(offset);
    if (!closed.ok()) return closed;
    if (end == image.bytes_.size()) {
      image.final_ = offset;
      return Ok();
    }
    return OpenUser(*name, offset);
  }
  if (!is_open) return Malformed("an entry outside every chain", offset);
  if (open.hook != kNone && info.underflow[open.hook] == offset) {
    if (!IsPolicy(entry)) return Malformed("a chain of the kernel without a policy", offset);
    Close(offset, end, image.entries_ + 1, image.built_in_);
  }
  return Ok();
}

Result<TableImage> TableImage::Parse(const Shape& shape, std::span<const uint8_t> bytes,
                                     const TableInfo& info) {
  if (bytes.size() > INT32_MAX) return Malformed("too many bytes", INT32_MAX);
  TableImage image(shape, bytes);
  Walker walker{image, info};
  uint32_t offset = 0;
  while (offset < bytes.size()) {
    FetchAhead(bytes, offset);
    if (!EntryView::Check(shape, bytes, offset)) return Malformed("no entry", offset);
    Status status = walker.Step(offset);
    if (!status.ok()) return status.error();
    ++image.entries_;
    walker.previous = offset;
    offset += image.At(offset).size();
  }
  if (walker.is_open || image.final_ != walker.previous || image.entries_ == 0 ||
      !image.At(image.final_).ErrorName())
    return Malformed("no end", offset);
  if (std::popcount(info.valid_hooks) != static_cast<int>(image.built_in_.size()))
    return Malformed("a hook without a chain", offset);
  if (image.entries_ != info.entries) return Malformed("another number of entries than announced", offset);
  return image;
}

uint32_t TableImage::FindChain(uint32_t rules) const {
  const auto found = std::ranges::lower_bound(chains_, rules, {}, &ImageChain::rules);
  if (found == chains_.end() || found->rules != rules) return kNone;
  return static_cast<uint32_t>(found - chains_.begin());
}

Result<std::optional<TableImage::Jump>> TableImage::JumpAt(uint32_t offset) const {
  const EntryView entry = At(offset);
  const auto at = entry.VerdictOffset();
  if (!at) return std::optional<Jump>();
  const auto verdict = Load<int32_t>(entry.bytes() + *at);
  if (verdict < 0) return std::optional<Jump>();
  const auto target = static_cast<uint32_t>(verdict);
  if (target == offset + entry.size()) return std::optional<Jump>({offset + *at, kNone});
  const uint32_t chain = FindChain(target);
  if (chain == kNone) return Malformed("a jump to no chain", offset);
  return std::optional<Jump>({offset + *at, chain});
}

}  // namespace viaduct::xtables
