#include "xtables/table_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "xtables/entry.h"

namespace viaduct::xtables {

namespace {

// ip6t_* have the same layout (shape.h).
constexpr size_t kEntriesHeader = offsetof(ipt_get_entries, entrytable);
constexpr size_t kReplaceHeader = offsetof(ipt_replace, entries);
constexpr size_t kCountersHeader = offsetof(xt_counters_info, counters);
static_assert(kEntriesHeader == 40 && kReplaceHeader == 96 && kCountersHeader == 40);

const char* WordsFor(int code) {
  switch (code) {
    case ENOPROTOOPT:
      return "this kernel has no legacy x_tables";
    case ENOENT:
      return "this kernel has no such table, or lacks a match or target";
    case EPERM:
      return "CAP_NET_ADMIN is needed";
    case ENOMEM:
      return "the kernel has no memory for a table of this size";
    default:
      return "";
  }
}

/// Which table it is says the caller.
Error Failed(int code, const char* what) { return {code, std::string(what) + " the table", WordsFor(code)}; }

}  // namespace

Result<TableSocket> TableSocket::Open(const Shape& shape, std::string table, SocketCalls& calls) {
  // A datagram socket, since raw ones need CAP_NET_RAW.
  Fd fd(calls.Socket(shape.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open())
    return Error{errno, shape.family == AF_INET ? "open IPv4 socket" : "open IPv6 socket", {}};
  return TableSocket(shape, std::move(table), calls, std::move(fd));
}

// net/ipv4/netfilter/ip_tables.c get_info()
Result<TableInfo> TableSocket::ReadInfo() {
  ipt_getinfo raw{};
  table_.copy(raw.name, sizeof raw.name - 1);
  socklen_t length = sizeof raw;
  if (calls_->GetOption(fd_.get(), shape_->level, IPT_SO_GET_INFO, &raw, &length) != 0)
    return Failed(errno, "inspect");
  TableInfo info{raw.valid_hooks, {}, {}, raw.num_entries, raw.size};
  // Of hooks that the table has not, what the kernel says means nothing.
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    if ((raw.valid_hooks >> hook & 1) == 0) continue;
    info.hook_entry[hook] = raw.hook_entry[hook];
    info.underflow[hook] = raw.underflow[hook];
  }
  return info;
}

std::span<const uint8_t> TableSocket::Entries::bytes() const {
  return memory.bytes().subspan(kEntriesHeader, info.bytes);
}

// get_entries(): EAGAIN when the size is not the table's. NB: of the names of matches and targets the kernel
// writes only as much as there is, so that the memory must be zero.
Result<TableSocket::Entries> TableSocket::ReadEntries() {
  auto info = ReadInfo();
  if (!info.ok()) return info.error();
  Pages memory(kEntriesHeader + info.value().bytes);
  ipt_get_entries header{};
  table_.copy(header.name, sizeof header.name - 1);
  header.size = info.value().bytes;
  memcpy(memory.bytes().data(), &header, kEntriesHeader);
  auto length = static_cast<socklen_t>(memory.bytes().size());
  if (calls_->GetOption(fd_.get(), shape_->level, IPT_SO_GET_ENTRIES, memory.bytes().data(), &length) != 0)
    return Failed(errno, "read");
  // Another table of the same size may have come between the two calls.
  auto again = ReadInfo();
  if (!again.ok()) return again.error();
  if (again.value() != info.value()) return Failed(EAGAIN, "read");
  return Entries{info.value(), std::move(memory)};
}

std::span<uint8_t> TableSocket::Draft::bytes() { return memory.bytes().subspan(kReplaceHeader); }

TableSocket::Draft TableSocket::MakeDraft(const TableInfo& info) {
  return {info, Pages(kReplaceHeader + info.bytes)};
}

// do_replace(), translate_table(), __do_replace()
Status TableSocket::Replace(Draft& draft, std::span<xt_counters> old) {
  ipt_replace header{};
  table_.copy(header.name, sizeof header.name - 1);
  header.valid_hooks = draft.info.valid_hooks;
  header.num_entries = draft.info.entries;
  header.size = draft.info.bytes;
  std::ranges::copy(draft.info.hook_entry, header.hook_entry);
  std::ranges::copy(draft.info.underflow, header.underflow);
  header.num_counters = static_cast<uint32_t>(old.size());
  header.counters = old.data();
  memcpy(draft.memory.bytes().data(), &header, kReplaceHeader);
  if (calls_->SetOption(fd_.get(), shape_->level, IPT_SO_SET_REPLACE, draft.memory.bytes()) == 0) return Ok();
  return Failed(errno, "replace");
}

// do_add_counters()
Status TableSocket::AddCounters(std::span<const xt_counters> counters) {
  std::vector<uint8_t> value(kCountersHeader + counters.size_bytes());
  xt_counters_info header{};
  table_.copy(header.name, sizeof header.name - 1);
  header.num_counters = static_cast<uint32_t>(counters.size());
  memcpy(value.data(), &header, kCountersHeader);
  memcpy(value.data() + kCountersHeader, counters.data(), counters.size_bytes());
  if (calls_->SetOption(fd_.get(), shape_->level, IPT_SO_SET_ADD_COUNTERS, value) == 0) return Ok();
  return Failed(errno, "restore counters of");
}

}  // namespace viaduct::xtables
