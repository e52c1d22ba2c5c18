#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace viaduct::ports {

struct Process {
  uint32_t pid = 0;
  std::string name;  ///< comm
  bool is_own = false;
};

/// The processes that have sockets of these inodes, as far as /proc shows them to this process. Reads the
/// descriptors of every process until all are found.
std::map<uint32_t, Process> FindOwners(const std::vector<uint32_t>& inodes);

}  // namespace viaduct::ports
