#include "scripted_kernel.h"

#include <fcntl.h>
#include <netinet/in.h>

#include <cstring>

#include "core/message_reader.h"

namespace viaduct {

namespace {

constexpr uint32_t kPortId = 4711;

int Fail(int code) {
  errno = code;
  return -1;
}

}  // namespace

int ScriptedKernel::Socket(int, int, int) {
  if (socket_error != 0) return Fail(socket_error);
  ++sockets_opened_;
  // A real descriptor, since its owner will close it.
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  queues_[fd].clear();
  last_socket_ = fd;
  return fd;
}

int ScriptedKernel::Bind(int, const sockaddr*, socklen_t) { return bind_error != 0 ? Fail(bind_error) : 0; }

int ScriptedKernel::SetOption(int, int level, int name, std::span<const uint8_t> value) {
  options_.insert({level, name});
  if (level != SOL_SOCKET) return 0;
  int wanted = 0;
  memcpy(&wanted, value.data(), sizeof wanted);
  const bool is_forced = name == SO_SNDBUFFORCE || name == SO_RCVBUFFORCE;
  if (is_forced && !can_force_buffers) return Fail(EPERM);
  const bool is_send = name == SO_SNDBUFFORCE || name == SO_SNDBUF;
  // The kernel doubles the requested size.
  buffers_[is_send ? SO_SNDBUF : SO_RCVBUF] = is_forced ? 2 * wanted : unforced_buffer;
  return 0;
}

int ScriptedKernel::GetOption(int, int level, int name, void* value, socklen_t* length) {
  if (level == IPPROTO_IP) {
    const int code = on_option(name, value, *length);
    return code == 0 ? 0 : Fail(code);
  }
  memcpy(value, &buffers_[name], sizeof(int));
  return 0;
}

ssize_t ScriptedKernel::Send(int fd, const msghdr* message, int) {
  if (fd < 0) return Fail(EBADF);
  const auto* start = static_cast<const uint8_t*>(message->msg_iov[0].iov_base);
  const Bytes bytes(start, start + message->msg_iov[0].iov_len);
  const int code = on_send(fd, bytes);
  if (code != 0) return Fail(code);
  sent_.push_back(bytes);
  return static_cast<ssize_t>(bytes.size());
}

ssize_t ScriptedKernel::Receive(int fd, msghdr* message, int) {
  if (!receive_errors.empty()) {
    const int code = receive_errors.front();
    receive_errors.pop_front();
    return Fail(code);
  }
  auto& queue = queues_[fd];
  if (queue.empty()) return Fail(EAGAIN);
  const Datagram datagram = queue.front();
  queue.pop_front();
  if (datagram.error != 0) return Fail(datagram.error);
  sockaddr_nl sender{};
  sender.nl_family = AF_NETLINK;
  sender.nl_pid = datagram.sender;
  memcpy(message->msg_name, &sender, sizeof sender);
  message->msg_namelen = sizeof sender;
  const size_t room = message->msg_iov[0].iov_len;
  const size_t size = std::min(room, datagram.bytes.size());
  memcpy(message->msg_iov[0].iov_base, datagram.bytes.data(), size);
  message->msg_flags = datagram.is_truncated || datagram.bytes.size() > room ? MSG_TRUNC : 0;
  return static_cast<ssize_t>(size);
}

int ScriptedKernel::Poll(pollfd* fds, nfds_t, int timeout_ms) {
  if (const int code = on_poll(fds[0].fd); code != 0) return Fail(code);
  if (!queues_[fds[0].fd].empty()) {
    fds[0].revents = POLLIN;
    return 1;
  }
  now_ += std::chrono::milliseconds(timeout_ms);
  return 0;
}

Bytes MakeMessage(uint16_t type, uint16_t flags, uint32_t sequence, const Bytes& payload) {
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(NLMSG_HDRLEN + payload.size());
  header.nlmsg_type = type;
  header.nlmsg_flags = flags;
  header.nlmsg_seq = sequence;
  header.nlmsg_pid = kPortId;
  Bytes message(NLMSG_ALIGN(header.nlmsg_len));
  memcpy(message.data(), &header, sizeof header);
  if (!payload.empty()) memcpy(message.data() + NLMSG_HDRLEN, payload.data(), payload.size());
  return message;
}

Bytes MakeError(uint32_t sequence, int code, std::string_view text) {
  nlmsgerr fixed{};
  fixed.error = -code;
  fixed.msg.nlmsg_len = NLMSG_HDRLEN;
  fixed.msg.nlmsg_seq = sequence;
  Bytes payload(sizeof fixed);
  memcpy(payload.data(), &fixed, sizeof fixed);
  if (text.empty()) return MakeMessage(NLMSG_ERROR, NLM_F_CAPPED, sequence, payload);
  const nlattr header{static_cast<uint16_t>(NLA_HDRLEN + text.size() + 1), NLMSGERR_ATTR_MSG};
  payload.resize(sizeof fixed + NLA_ALIGN(header.nla_len));
  memcpy(payload.data() + sizeof fixed, &header, sizeof header);
  text.copy(reinterpret_cast<char*>(payload.data() + sizeof fixed + NLA_HDRLEN), text.size());
  return MakeMessage(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, sequence, payload);
}

Bytes MakeDone(uint32_t sequence, uint16_t flags) {
  return MakeMessage(NLMSG_DONE, NLM_F_MULTI | flags, sequence, Bytes(sizeof(int32_t)));
}

Bytes Concatenate(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<nlmsghdr> HeadersOf(const Bytes& sent) {
  std::vector<nlmsghdr> headers;
  MessageReader reader(sent);
  while (const auto message = reader.Next()) headers.push_back(message->header);
  return headers;
}

}  // namespace viaduct
