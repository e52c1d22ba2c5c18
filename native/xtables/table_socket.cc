#include "xtables/table_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "xtables/entry.h"

namespace viaduct::xtables {

namespace {

// ip6t_* have the same layout (shape.h).
constexpr size_t kEntriesHeader = offsetof(ipt_get_entries, entrytable);
constexpr size_t kReplaceHeader = offsetof(ipt_replace, entries);
constexpr size_t kCountersHeader = offsetof(xt_counters_info, counters);
static_assert(kEntriesHeader == 40 && kReplaceHeader == 96 && kCountersHeader == 40);
// Start of the value of GET_ENTRIES that puts the entries at the offset of SET_REPLACE.
constexpr size_t kEntriesStart = kReplaceHeader - kEntriesHeader;
static_assert(kEntriesStart % alignof(ipt_get_entries) == 0);

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

/// The caller adds the name of the table.
Error Failed(int code, const char* what) { return {code, std::string(what) + " the table", WordsFor(code)}; }

}  // namespace

Result<TableSocket> TableSocket::Open(const Shape& shape, std::string table, SocketCalls& calls) {
  // A datagram socket: raw ones need CAP_NET_RAW.
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
  // The kernel's values for hooks that the table lacks are undefined.
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    if ((raw.valid_hooks >> hook & 1) == 0) continue;
    info.hook_entry[hook] = raw.hook_entry[hook];
    info.underflow[hook] = raw.underflow[hook];
  }
  return info;
}

std::span<uint8_t> TableSocket::Table::bytes() { return memory.bytes().subspan(kReplaceHeader); }
std::span<const uint8_t> TableSocket::Table::bytes() const { return memory.bytes().subspan(kReplaceHeader); }

TableSocket::Table TableSocket::MakeTable(const TableInfo& info) {
  return {info, pool_->Take(kReplaceHeader + info.bytes)};
}

// get_entries(): EAGAIN if the size is not the table's. NB: the kernel writes names of matches and targets
// without padding, so the memory must be zero.
Result<TableSocket::Table> TableSocket::ReadTable() {
  auto info = ReadInfo();
  if (!info.ok()) return info.error();
  Table table = MakeTable(info.value());
  const auto value = table.memory.bytes().subspan(kEntriesStart);
  ipt_get_entries header{};
  table_.copy(header.name, sizeof header.name - 1);
  header.size = info.value().bytes;
  memcpy(value.data(), &header, kEntriesHeader);
  auto length = static_cast<socklen_t>(value.size());
  if (calls_->GetOption(fd_.get(), shape_->level, IPT_SO_GET_ENTRIES, value.data(), &length) != 0)
    return Failed(errno, "read");
  // Another table of the same size may have replaced it between the two calls.
  auto again = ReadInfo();
  if (!again.ok()) return again.error();
  if (again.value() != info.value()) return Failed(EAGAIN, "read");
  return table;
}

std::span<xt_counters> TableSocket::Counters::all() {
  return {reinterpret_cast<xt_counters*>(memory.bytes().data() + kCountersHeader), entries};
}

TableSocket::Counters TableSocket::MakeCounters(uint32_t entries) {
  return {entries, pool_->Take(kCountersHeader + entries * sizeof(xt_counters))};
}

// do_replace(), translate_table(), __do_replace()
Status TableSocket::Replace(Table& table, Counters& old) {
  ipt_replace header{};
  table_.copy(header.name, sizeof header.name - 1);
  header.valid_hooks = table.info.valid_hooks;
  header.num_entries = table.info.entries;
  header.size = table.info.bytes;
  std::ranges::copy(table.info.hook_entry, header.hook_entry);
  std::ranges::copy(table.info.underflow, header.underflow);
  header.num_counters = old.entries;
  header.counters = old.all().data();
  memcpy(table.memory.bytes().data(), &header, kReplaceHeader);
  if (calls_->SetOption(fd_.get(), shape_->level, IPT_SO_SET_REPLACE, table.memory.bytes()) == 0) return Ok();
  return Failed(errno, "replace");
}

// do_replace() checks every entry (translate_table()) before __do_replace() compares the number of counters
// with that of the current entries. One counter never matches, since a table has a policy for each hook:
// EAGAIN.
Status TableSocket::Try(Table& table) {
  Counters wrong_number = MakeCounters(1);
  Status status = Replace(table, wrong_number);
  if (!status.ok() && status.error().code == EAGAIN) return Ok();
  return status;
}

// do_add_counters()
Status TableSocket::AddCounters(Counters& counters) {
  xt_counters_info header{};
  table_.copy(header.name, sizeof header.name - 1);
  header.num_counters = counters.entries;
  memcpy(counters.memory.bytes().data(), &header, kCountersHeader);
  if (calls_->SetOption(fd_.get(), shape_->level, IPT_SO_SET_ADD_COUNTERS, counters.memory.bytes()) == 0)
    return Ok();
  return Failed(errno, "restore counters of");
}

}  // namespace viaduct::xtables
