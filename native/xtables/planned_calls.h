#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/socket_calls.h"
#include "xtables/shape.h"
#include "xtables/table_image.h"

namespace viaduct::xtables {

/// The set number of a set that only a plan has. In the upper half of the numbers, which the kernel gives to
/// sets in ascending order. planned-ipset.ts has the same function.
uint16_t PlannedSetIndex(std::string_view name);

/// The system calls of a table for a plan: the kernel never changes. Reads show the kernel's table until the
/// first replacement, then the replacement. An absent table is shown empty, since a request for it would
/// create it. Matches and targets whose modules are not loaded count as present.
class PlannedCalls final : public SocketCalls {
 public:
  /// `proc`: /proc/net. NB: `shape` and `kernel` must outlive this.
  PlannedCalls(const Shape& shape, std::string table, std::string proc, SocketCalls& kernel)
      : shape_(&shape), table_(std::move(table)), proc_(std::move(proc)), kernel_(&kernel) {}

  int Socket(int domain, int type, int protocol) override { return kernel_->Socket(domain, type, protocol); }
  int Bind(int fd, const sockaddr* address, socklen_t length) override {
    return kernel_->Bind(fd, address, length);
  }
  int SetOption(int fd, int level, int name, std::span<const uint8_t> value) override;
  int GetOption(int fd, int level, int name, void* value, socklen_t* length) override;
  ssize_t Send(int fd, const msghdr* message, int flags) override {
    return kernel_->Send(fd, message, flags);
  }
  ssize_t Receive(int fd, msghdr* message, int flags) override {
    return kernel_->Receive(fd, message, flags);
  }
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override {
    return kernel_->Poll(fds, count, timeout_ms);
  }
  unsigned InterfaceIndex(const char* name) override { return kernel_->InterfaceIndex(name); }
  std::chrono::nanoseconds Now() override { return kernel_->Now(); }
  void Sleep(std::chrono::nanoseconds time) override { kernel_->Sleep(time); }

 private:
  /// Whether a file of `proc_` of the family has the line: "names", "matches", "targets".
  bool Lists(const char* file, std::string_view line) const;
  /// The table that reads show instead of the kernel's; null: the kernel's.
  const TableInfo* Shown();
  void MakeEmpty();
  void Replace(std::span<const uint8_t> value);
  int FindSet(int fd, void* value, socklen_t* length);

  const Shape* shape_;
  std::string table_;
  std::string proc_;
  SocketCalls* kernel_;
  bool is_planned_ = false;  ///< `info_` and `bytes_` are the table
  TableInfo info_;
  std::vector<uint8_t> bytes_;
};

}  // namespace viaduct::xtables
