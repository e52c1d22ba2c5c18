#include "look/kernel_look.h"

#include <sys/socket.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace viaduct::look {

namespace {

template <typename T>
void Append(std::vector<uint8_t>& bytes, const T& value) {
  static_assert(std::has_unique_object_representations_v<T>, "padding differs by chance");
  const size_t size = bytes.size();
  bytes.resize(size + sizeof value);
  memcpy(bytes.data() + size, &value, sizeof value);
}

}  // namespace

Result<KernelLook> KernelLook::Open(std::span<const uint8_t> families, Scope scope, SocketCalls& calls) {
  const auto names =
      scope == Scope::kIpvs ? std::vector{"nat", "mangle", "filter"} : std::vector{"nat", "filter"};
  std::vector<xtables::TableSocket> tables;
  for (const uint8_t family : families) {
    for (const char* table : names) {
      auto socket = xtables::TableSocket::Open(xtables::ShapeOf(family), table, calls);
      if (!socket.ok()) return socket.error();
      tables.push_back(std::move(socket.value()));
    }
  }
  if (scope == Scope::kTables) return KernelLook(std::move(tables), nullptr);
  auto servers = ipvs::OptionReader::Open(calls);
  if (!servers.ok()) return servers.error();
  return KernelLook(std::move(tables), std::make_unique<ipvs::OptionReader>(std::move(servers.value())));
}

std::vector<uint8_t> KernelLook::Take() {
  std::vector<uint8_t> bytes;
  for (xtables::TableSocket& table : tables_) {
    const auto info = table.ReadInfo();
    Append(bytes, info.ok() ? 0 : info.error().code);
    if (info.ok()) Append(bytes, info.value());
  }
  if (!servers_) return bytes;
  const auto servers = servers_->ReadInfo();
  Append(bytes, servers.ok() ? 0 : servers.error().code);
  if (servers.ok()) Append(bytes, servers.value().num_services);
  return bytes;
}

}  // namespace viaduct::look
