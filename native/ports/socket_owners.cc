#include "ports/socket_owners.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "core/fd.h"

namespace viaduct::ports {

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The inode of a link such as `socket:[1234]`.
std::optional<uint32_t> SocketInode(std::string_view link) {
  constexpr std::string_view kPrefix = "socket:[";
  if (!link.starts_with(kPrefix) || !link.ends_with(']')) return std::nullopt;
  return ParseNumber(link.substr(kPrefix.size(), link.size() - kPrefix.size() - 1));
}

std::string NameOfProcess(uint32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/comm";
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t length = file.is_open() ? read(file.get(), text, sizeof text) : 0;
  if (length <= 0) return {};
  const std::string_view name(text, static_cast<size_t>(length));
  return std::string(name.substr(0, name.find('\n')));
}

/// This process by the number that /proc has for it. /proc may be that of another PID namespace.
std::optional<uint32_t> OwnPid() {
  char link[64];
  const ssize_t length = readlink("/proc/self", link, sizeof link);
  return length <= 0 ? std::nullopt : ParseNumber({link, static_cast<size_t>(length)});
}

/// Moves the inodes that the process has from `wanted` to `owners`.
void SearchProcess(uint32_t pid, std::set<uint32_t>& wanted, std::map<uint32_t, Process>& owners) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd";
  const Folder folder(opendir(path.c_str()));
  if (!folder) return;
  while (const dirent* entry = readdir(folder.get())) {
    char link[64];
    const ssize_t length = readlinkat(dirfd(folder.get()), entry->d_name, link, sizeof link);
    if (length <= 0) continue;
    const auto inode = SocketInode({link, static_cast<size_t>(length)});
    if (!inode || wanted.erase(*inode) == 0) continue;
    owners[*inode] = {pid, NameOfProcess(pid), pid == OwnPid()};
    if (wanted.empty()) return;
  }
}

}  // namespace

std::map<uint32_t, Process> FindOwners(const std::vector<uint32_t>& inodes) {
  std::set<uint32_t> wanted(inodes.begin(), inodes.end());
  wanted.erase(0);
  std::map<uint32_t, Process> owners;
  if (wanted.empty()) return owners;
  const Folder processes(opendir("/proc"));
  if (!processes) return owners;
  while (const dirent* entry = readdir(processes.get())) {
    const auto pid = ParseNumber(entry->d_name);
    if (pid) SearchProcess(*pid, wanted, owners);
    if (wanted.empty()) break;
  }
  return owners;
}

}  // namespace viaduct::ports
