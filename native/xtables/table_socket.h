#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/fd.h"
#include "core/result.h"
#include "core/socket_calls.h"
#include "xtables/pages.h"
#include "xtables/shape.h"
#include "xtables/table_image.h"

namespace viaduct::xtables {

/// One table of the kernel, as the socket options have it. ENOPROTOOPT: this kernel has no legacy x_tables;
/// ENOENT: it has no such table; EPERM: no CAP_NET_ADMIN.
class TableSocket {
 public:
  static Result<TableSocket> Open(const Shape& shape, std::string table, SocketCalls& calls);

  int fd() const { return fd_.get(); }
  const Shape& shape() const { return *shape_; }

  Result<TableInfo> ReadInfo();
  /// Memory for a table of so many bytes, all zero: what was read, or what is to be written. There is room in
  /// front of the entries for what either call has there.
  struct Table {
    TableInfo info;
    PagePool::Loan memory;
    std::span<uint8_t> bytes();
    std::span<const uint8_t> bytes() const;
  };
  Table MakeTable(const TableInfo& info);
  /// The kernel's table. EAGAIN: it changed in between.
  Result<Table> ReadTable();

  /// Counters of so many entries, all zero.
  struct Counters {
    uint32_t entries;
    PagePool::Loan memory;
    std::span<xt_counters> all();
  };
  Counters MakeCounters(uint32_t entries);
  /// Puts `table` in the place of one of `old.entries` entries, whose counters come back there. EAGAIN: the
  /// kernel's table has another number of entries by now.
  Status Replace(Table& table, Counters& old);
  /// Has the kernel check a table, as for a replacement, and put it nowhere. The error is the one that
  /// Replace() would give.
  Status Try(Table& table);
  /// To be called with every call on the table: memory that was not needed for long goes back to the kernel.
  void Trim() { pool_->Trim(calls_->Now()); }
  /// Adds to the counters of every entry. EINVAL: the kernel's table has another number of entries by now.
  Status AddCounters(Counters& counters);

 private:
  TableSocket(const Shape& shape, std::string table, SocketCalls& calls, Fd fd)
      : shape_(&shape), table_(std::move(table)), calls_(&calls), fd_(std::move(fd)) {}

  const Shape* shape_;
  std::string table_;
  SocketCalls* calls_;
  Fd fd_;
  /// Where it is stays the same: tables point to it.
  std::unique_ptr<PagePool> pool_ = std::make_unique<PagePool>();
};

}  // namespace viaduct::xtables
