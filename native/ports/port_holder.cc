#include "ports/port_holder.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace viaduct::ports {

namespace {

int SetInt(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

int GetInt(int fd, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

struct SocketName {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;
};

SocketName NameOf(const PortRecord& port) {
  SocketName name{};
  if (port.family == AF_INET) {
    name.v4.sin_family = AF_INET;
    name.v4.sin_port = htobe16(port.port);
    memcpy(&name.v4.sin_addr, port.address, sizeof name.v4.sin_addr);
    name.length = sizeof name.v4;
  } else {
    name.v6.sin6_family = AF_INET6;
    name.v6.sin6_port = htobe16(port.port);
    memcpy(&name.v6.sin6_addr, port.address, sizeof name.v6.sin6_addr);
    name.length = sizeof name.v6;
  }
  return name;
}

/// The port that a socket has; nothing: it is no socket of a port.
std::optional<PortRecord> PortOf(int fd) {
  SocketName name{};
  name.length = sizeof name.v6;
  if (getsockname(fd, &name.any, &name.length) != 0) return std::nullopt;
  PortRecord port{};
  if (name.any.sa_family == AF_INET) {
    memcpy(port.address, &name.v4.sin_addr, sizeof name.v4.sin_addr);
    port.port = be16toh(name.v4.sin_port);
  } else if (name.any.sa_family == AF_INET6) {
    memcpy(port.address, &name.v6.sin6_addr, sizeof name.v6.sin6_addr);
    port.port = be16toh(name.v6.sin6_port);
  }
  port.family = static_cast<uint8_t>(name.any.sa_family);
  port.protocol = static_cast<uint8_t>(GetInt(fd, SO_PROTOCOL));
  if (port.port == 0) return std::nullopt;
  return port;
}

PortRecord KeyOf(PortRecord port) {
  port.op = Op::kNone;
  return port;
}

int TypeOf(const PortRecord& port) { return port.protocol == IPPROTO_UDP ? SOCK_DGRAM : SOCK_STREAM; }

/// Returns an errno.
int BindSocket(int fd, const PortRecord& port) {
  int code = SetInt(fd, SOL_SOCKET, SO_RCVBUF, kHeldReceiveBytes);
  if (code == 0 && port.family == AF_INET6) code = SetInt(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  // Connections of a program that had the port before may linger in TIME_WAIT. A listening socket keeps the
  // port in spite of the option, a UDP socket would not.
  if (code == 0 && port.protocol == IPPROTO_TCP) code = SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (code != 0) return code;
  const SocketName name = NameOf(port);
  if (bind(fd, &name.any, name.length) != 0) return errno;
  if (port.protocol == IPPROTO_TCP && listen(fd, 0) != 0) return errno;
  return 0;
}

/// Whether the descriptor is one of the last that the process may have.
bool IsReserved(int fd) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  return static_cast<rlim_t>(fd) + PortHolder::kReservedDescriptors >= limit.rlim_cur;
}

}  // namespace

Result<PortHolder::Outcome> PortHolder::Apply(std::span<const PortRecord> records) {
  Adopt();
  Outcome outcome;
  int sctp_code = 0;
  for (uint32_t i = 0; i < records.size(); ++i) {
    const PortRecord port = KeyOf(records[i]);
    const bool is_sctp = records[i].op == Op::kHold && port.protocol == IPPROTO_SCTP;
    const int code = is_sctp && sctp_code != 0    ? sctp_code
                     : records[i].op == Op::kHold ? Hold(port)
                                                  : Release(port);
    // Each further attempt would let the kernel search for its module again.
    if (is_sctp && (code == EPROTONOSUPPORT || code == ESOCKTNOSUPPORT)) sctp_code = code;
    if (code != 0) outcome.batch.failures.push_back({i, code, false, {}});
  }
  outcome.batch.applied = static_cast<uint32_t>(records.size() - outcome.batch.failures.size());
  const Status stored = store_.Flush();
  if (!stored.ok()) outcome.store_error = stored.error().code;
  return outcome;
}

Result<std::vector<PortRecord>> PortHolder::List() {
  Adopt();
  std::vector<PortRecord> ports;
  ports.reserve(held_.size());
  for (const auto& [port, held] : held_) ports.push_back(port);
  return ports;
}

void PortHolder::Adopt() {
  for (const InheritedRecord& inherited : std::exchange(inherited_, {})) {
    for (Fd& fd : store_.Adopt(inherited)) {
      const auto port = PortOf(fd.get());
      // A process that ended between two steps of a replacement leaves a socket in two bags.
      if (!port || held_.contains(*port))
        store_.Remove(fd.get());
      else
        held_.emplace(*port, std::move(fd));
    }
  }
}

int PortHolder::Hold(const PortRecord& port) {
  if (held_.contains(port)) return 0;
  Fd fd(socket(port.family, TypeOf(port) | SOCK_CLOEXEC, port.protocol));
  if (!fd.is_open()) return errno;
  if (IsReserved(fd.get())) return EMFILE;
  if (const int code = BindSocket(fd.get(), port); code != 0) return code;
  store_.Add(fd.get());
  held_.emplace(port, std::move(fd));
  return 0;
}

int PortHolder::Release(const PortRecord& port) {
  const auto found = held_.find(port);
  if (found == held_.end()) return ENOENT;
  store_.Remove(found->second.fd.get());
  held_.erase(found);
  return 0;
}

}  // namespace viaduct::ports
