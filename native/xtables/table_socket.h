#pragma once

#include <cstdint>
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
  /// The table's entries. EAGAIN: it changed in between.
  struct Entries {
    TableInfo info;
    Pages memory;
    std::span<const uint8_t> bytes() const;
  };
  Result<Entries> ReadEntries();

  /// Memory for a table of so many bytes, and where in it the entries go.
  struct Draft {
    TableInfo info;
    Pages memory;
    std::span<uint8_t> bytes();
  };
  static Draft MakeDraft(const TableInfo& info);
  /// Puts the draft in the place of a table of `old.size()` entries, whose counters come back there. EAGAIN:
  /// the kernel's table has another number of entries by now.
  Status Replace(Draft& draft, std::span<xt_counters> old);
  /// Adds to the counters of every entry. EINVAL: the kernel's table has another number of entries by now.
  Status AddCounters(std::span<const xt_counters> counters);

 private:
  TableSocket(const Shape& shape, std::string table, SocketCalls& calls, Fd fd)
      : shape_(&shape), table_(std::move(table)), calls_(&calls), fd_(std::move(fd)) {}

  const Shape* shape_;
  std::string table_;
  SocketCalls* calls_;
  Fd fd_;
};

}  // namespace viaduct::xtables
