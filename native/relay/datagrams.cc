#include "relay/datagrams.h"

#include <netinet/in.h>

#include <cstring>

namespace viaduct::relay {

namespace {

/// Makes the control message of a datagram.
template <typename Content>
void SetControl(msghdr& header, std::span<uint8_t> room, int level, int type, const Content& content) {
  header.msg_control = room.data();
  header.msg_controllen = CMSG_SPACE(sizeof content);
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = level;
  part->cmsg_type = type;
  part->cmsg_len = CMSG_LEN(sizeof content);
  memcpy(CMSG_DATA(part), &content, sizeof content);
}

/// ip_cmsg_send() and ip6_datagram_send_ctl(): the source of one datagram.
void SetSource(msghdr& header, std::span<uint8_t> room, const SocketAddress& source) {
  uint8_t address[16] = {};
  uint16_t port = 0;
  source.Write(address, port);
  if (source.family() == AF_INET) {
    in_pktinfo info{};
    memcpy(&info.ipi_spec_dst, address, sizeof info.ipi_spec_dst);
    SetControl(header, room, IPPROTO_IP, IP_PKTINFO, info);
  } else {
    in6_pktinfo info{};
    memcpy(&info.ipi6_addr, address, sizeof info.ipi6_addr);
    SetControl(header, room, IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
}

}  // namespace

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

void Datagrams::Prepare(size_t index, SocketAddress* target, const SocketAddress* source) {
  parts_[index].vector.iov_len = messages_[index].msg_len;
  msghdr& header = messages_[index].msg_hdr;
  header.msg_name = target == nullptr ? nullptr : target->data();
  header.msg_namelen = target == nullptr ? 0 : target->size();
  header.msg_control = nullptr;
  header.msg_controllen = 0;
  if (source != nullptr) SetSource(header, parts_[index].control, *source);
}

int Datagrams::Send(int fd, size_t first, size_t count) {
  return sendmmsg(fd, messages_.data() + first, static_cast<unsigned>(count), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace viaduct::relay
