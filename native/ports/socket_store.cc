#include "ports/socket_store.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "system/service_manager.h"

namespace viaduct::ports {

namespace {

constexpr const char* kOperation = "store held ports";

/// Room for the descriptors of one message.
struct alignas(cmsghdr) Control {
  uint8_t bytes[CMSG_SPACE(SocketStore::kBagSize * sizeof(int))] = {};
};

std::string NameOf(uint32_t number) { return "FDNAME=viaduct-ports-" + std::to_string(number); }

/// A Unix socket with the sockets in its receive queue.
Result<Fd> MakeBag(const std::vector<int>& fds) {
  int ends[2];
  // A datagram socket: the manager would drop a stream whose peer is closed, as it reports EPOLLHUP.
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) return Error{errno, kOperation, {}};
  const Fd sender(ends[0]);
  Fd bag(ends[1]);
  char byte = 0;
  iovec bytes{&byte, 1};
  Control control;
  const size_t size = fds.size() * sizeof(int);
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(size);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  memcpy(CMSG_DATA(header), fds.data(), size);
  if (sendmsg(sender.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return Error{errno, kOperation, {}};
  return bag;
}

std::vector<Fd> TakeDescriptors(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

std::vector<Fd> SocketStore::Adopt(const InheritedRecord& inherited) {
  const Fd bag(static_cast<int>(inherited.fd));
  next_number_ = std::max(next_number_, inherited.number + 1);
  const size_t index = bags_.size();
  bags_.push_back({inherited.number, {}, false});
  char byte = 0;
  iovec bytes{&byte, 1};
  Control control;
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  // Only a look: the store has the same socket, and its queue stays as it is.
  const bool is_read = recvmsg(bag.get(), &message, MSG_PEEK | MSG_CMSG_CLOEXEC | MSG_DONTWAIT) >= 0;
  std::vector<Fd> fds;
  if (is_read) fds = TakeDescriptors(message);
  for (const Fd& fd : fds) Put(index, fd.get());
  // Sockets that this process could not take stay bound until the bag is replaced.
  if (!is_read || (message.msg_flags & MSG_CTRUNC) != 0) NoteChange(index);
  return fds;
}

void SocketStore::Add(int fd) {
  if (socket_.empty()) return;
  while (first_open_ < bags_.size() && bags_[first_open_].fds.size() >= kBagSize) ++first_open_;
  if (first_open_ == bags_.size()) bags_.emplace_back();
  Put(first_open_, fd);
  NoteChange(first_open_);
}

void SocketStore::Remove(int fd) {
  const auto found = bag_of_.find(fd);
  if (found == bag_of_.end()) return;
  const size_t bag = found->second;
  bag_of_.erase(found);
  std::erase(bags_[bag].fds, fd);
  first_open_ = std::min(first_open_, bag);
  NoteChange(bag);
}

Status SocketStore::Flush() {
  if (socket_.empty()) return Ok();
  while (!changed_.empty()) {
    Bag& bag = bags_[changed_.back()];
    // The new bag is stored before the old one goes: at no moment is a socket in neither.
    auto stored = Store(bag.fds);
    if (!stored.ok()) return stored.error();
    if (bag.stored_number != 0) obsolete_.push_back(bag.stored_number);
    bag.stored_number = stored.value();
    bag.is_changed = false;
    changed_.pop_back();
  }
  for (; !obsolete_.empty(); obsolete_.pop_back()) {
    Status removed =
        system::SendToServiceManager(socket_, "FDSTOREREMOVE=1\n" + NameOf(obsolete_.back()), -1);
    if (!removed.ok()) return removed;
  }
  return Ok();
}

void SocketStore::Put(size_t bag, int fd) {
  bags_[bag].fds.push_back(fd);
  bag_of_[fd] = bag;
}

void SocketStore::NoteChange(size_t bag) {
  if (bags_[bag].is_changed) return;
  bags_[bag].is_changed = true;
  changed_.push_back(bag);
}

/// The number of the new bag; 0: it would be empty.
Result<uint32_t> SocketStore::Store(const std::vector<int>& fds) {
  if (fds.empty()) return 0;
  auto bag = MakeBag(fds);
  if (!bag.ok()) return bag.error();
  const uint32_t number = next_number_++;
  const std::string state = "FDSTORE=1\nFDPOLL=0\n" + NameOf(number);
  Status stored = system::SendToServiceManager(socket_, state, bag.value().get());
  if (!stored.ok()) return stored.error();
  return number;
}

}  // namespace viaduct::ports
