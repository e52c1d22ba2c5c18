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

/// One table of the kernel, by socket options. ENOPROTOOPT: the kernel has no legacy x_tables; ENOENT: it
/// lacks the table; EPERM: CAP_NET_ADMIN is missing.
class TableSocket {
 public:
  static Result<TableSocket> Open(const Shape& shape, std::string table, SocketCalls& calls);

  int fd() const { return fd_.get(); }
  const Shape& shape() const { return *shape_; }

  Result<TableInfo> ReadInfo();
  /// Zeroed memory for a table to read or to write. In front of the entries there is room for the header of
  /// either call.
  struct Table {
    TableInfo info;
    PagePool::Loan memory;
    std::span<uint8_t> bytes();
    std::span<const uint8_t> bytes() const;
  };
  Table MakeTable(const TableInfo& info);
  /// Reads the kernel's table. EAGAIN: it changed during the call.
  Result<Table> ReadTable();

  /// Zeroed counters of `entries` entries.
  struct Counters {
    uint32_t entries;
    PagePool::Loan memory;
    std::span<xt_counters> all();
  };
  Counters MakeCounters(uint32_t entries);
  /// Replaces a table of `old.entries` entries with `table` and returns the old counters in `old`. EAGAIN:
  /// the kernel's table now has another number of entries.
  Status Replace(Table& table, Counters& old);
  /// Makes the kernel check a table without using it. The error is that of Replace().
  Status Try(Table& table);
  /// Returns long unused memory to the kernel. NB: call it with every operation on the table.
  void Trim() { pool_->Trim(calls_->Now()); }
  /// Adds to the counters of every entry. EINVAL: the kernel's table now has another number of entries.
  Status AddCounters(Counters& counters);

 private:
  TableSocket(const Shape& shape, std::string table, SocketCalls& calls, Fd fd)
      : shape_(&shape), table_(std::move(table)), calls_(&calls), fd_(std::move(fd)) {}

  const Shape* shape_;
  std::string table_;
  SocketCalls* calls_;
  Fd fd_;
  /// On the heap: tables keep its address.
  std::unique_ptr<PagePool> pool_ = std::make_unique<PagePool>();
};

}  // namespace viaduct::xtables
