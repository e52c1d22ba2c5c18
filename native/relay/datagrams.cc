#include "relay/datagrams.h"

namespace viaduct::relay {

Datagrams::Datagrams() : room_(new uint8_t[kBatch * kLongest]) {
  for (size_t i = 0; i < kBatch; ++i) {
    parts_[i].vector.iov_base = room_.get() + i * kLongest;
    messages_[i].msg_hdr.msg_iov = &parts_[i].vector;
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
}

int Datagrams::Receive(int fd) {
  for (size_t i = 0; i < kBatch; ++i) {
    parts_[i].vector.iov_len = kLongest;
    msghdr& header = messages_[i].msg_hdr;
    header.msg_name = parts_[i].source.data();
    header.msg_namelen = SocketAddress::kRoom;
    header.msg_control = parts_[i].control.data();
    header.msg_controllen = parts_[i].control.size();
  }
  return recvmmsg(fd, messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
}

void Datagrams::Prepare(size_t index, SocketAddress* target) {
  parts_[index].vector.iov_len = messages_[index].msg_len;
  msghdr& header = messages_[index].msg_hdr;
  header.msg_name = target == nullptr ? nullptr : target->data();
  header.msg_namelen = target == nullptr ? 0 : target->size();
  header.msg_control = nullptr;
  header.msg_controllen = 0;
}

int Datagrams::Send(int fd, size_t first, size_t count) {
  return sendmmsg(fd, messages_.data() + first, static_cast<unsigned>(count), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace viaduct::relay
