#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/socket_calls.h"
#include "xtables/shape.h"
#include "xtables/table_image.h"

namespace viaduct::xtables {

using Bytes = std::vector<uint8_t>;

/// The socket options of one IPv4 table, "nat", with the kernel's checks of counts and sizes and its scratch
/// fields. Every revision exists, unless `missing` names the extension.
class ModelTable : public SocketCalls {
 public:
  /// A table without rules. Every policy is ACCEPT.
  ModelTable();

  /// Called before a replacement is checked, for changes of another program.
  std::function<void()> before_replace = [] {};
  /// A rule of this destination, 10.0.0.`bad`, is refused with EINVAL; 0: none.
  uint8_t bad = 0;
  int replace_error = 0;  ///< the next replacement fails with it
  int info_error = 0;
  std::string missing;

  /// The table as text, a line per chain: "OUTPUT: 1>KUBE-A, ACCEPT". Each rule has the last byte of its
  /// destination (if any) and its target; counters, if any, in brackets: "1>KUBE-A[7]".
  std::string Text() const;
  /// Replaces the table with one in the same notation; policies are ACCEPT.
  void SetText(std::string_view text);

  /// Makes the first jump to a chain lead to its ERROR entry, which is not valid.
  void LeadAstray(std::string_view chain);

  const TableInfo& info() const { return info_; }
  const Bytes& bytes() const { return bytes_; }
  int replacements() const { return replacements_; }
  int revision_questions() const { return revision_questions_; }
  /// Tables that were checked, in force or not.
  int tries() const { return tries_; }
  int counter_additions() const { return counter_additions_; }
  /// Reads of the entries.
  int reads() const { return reads_; }
  std::chrono::nanoseconds now{};

  int Socket(int domain, int type, int protocol) override;
  int Bind(int fd, const sockaddr* address, socklen_t length) override;
  int SetOption(int fd, int level, int name, std::span<const uint8_t> value) override;
  int GetOption(int fd, int level, int name, void* value, socklen_t* length) override;
  ssize_t Send(int fd, const msghdr* message, int flags) override;
  ssize_t Receive(int fd, msghdr* message, int flags) override;
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override;
  unsigned InterfaceIndex(const char*) override { return 0; }
  std::chrono::nanoseconds Now() override { return now; }
  void Sleep(std::chrono::nanoseconds time) override { now += time; }

 private:
  int Get(int name, void* value, socklen_t length);
  int GetRevision(void* value) const;
  int GetEntries(uint8_t* value, socklen_t length);
  int Replace(std::span<const uint8_t> value);
  int AddCounters(std::span<const uint8_t> value);

  TableInfo info_;
  Bytes bytes_;
  std::vector<xt_counters> counters_;
  int replacements_ = 0;
  int tries_ = 0;
  mutable int revision_questions_ = 0;
  int counter_additions_ = 0;
  int reads_ = 0;
};

}  // namespace viaduct::xtables
