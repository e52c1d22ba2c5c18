#include "core/netlink_socket.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "core/debug.h"

namespace viaduct {

namespace {

// 64 KiB and 1 MiB per send are equally fast. Smaller sends release the kernel's locks in between.
constexpr size_t kMaxSendBytes = 256 << 10;
// Size of one error in the receive queue: skb truesize 960 on 6.12, more with an extended-ACK text.
constexpr int kErrorTruesize = 1280;

Error SystemError(const char* operation) { return {errno, operation, {}}; }

}  // namespace

Result<NetlinkSocket> NetlinkSocket::Open(const Options& options) {
  NetlinkSocket socket(options);
  Status connected = socket.Connect();
  if (!connected.ok()) return connected.error();
  return socket;
}

Status NetlinkSocket::Connect() {
  fd_.Reset();  // first: frees the descriptor
  fd_ = Fd(options_.calls->Socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, options_.protocol));
  if (!fd_.is_open()) return SystemError("open netlink socket");
  Status prepared = Prepare();
  if (!prepared.ok()) fd_.Reset();
  return prepared;
}

Status NetlinkSocket::Prepare() {
  Status sized = SizeBuffers();
  if (!sized.ok()) return sized;
  std::vector<int> wanted = {NETLINK_EXT_ACK, NETLINK_CAP_ACK};
  if (options_.strict_check) wanted.push_back(NETLINK_GET_STRICT_CHK);
  for (const int option : wanted) {
    // Ignoring the result: a kernel without an option sends longer errors, no texts, or unfiltered dumps. The
    // decoders handle each.
    const int on = 1;
    (void)options_.calls->SetOption(fd_.get(), SOL_NETLINK, option,
                                    {reinterpret_cast<const uint8_t*>(&on), sizeof on});
  }
  return Bind();
}

Status NetlinkSocket::Bind() {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (options_.calls->Bind(fd_.get(), generic, sizeof address) != 0)
    return SystemError("bind netlink socket");
  for (const uint32_t group : options_.groups) {
    const std::span<const uint8_t> value{reinterpret_cast<const uint8_t*>(&group), sizeof group};
    if (options_.calls->SetOption(fd_.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, value) != 0)
      return SystemError("join netlink group");
  }
  return Ok();
}

int NetlinkSocket::WantBuffer(int wanted, int force_option, int option) const {
  const std::span<const uint8_t> value{reinterpret_cast<const uint8_t*>(&wanted), sizeof wanted};
  // Forcing needs CAP_NET_ADMIN in the initial user namespace; without it the kernel clamps to rmem_max or
  // wmem_max.
  if (options_.calls->SetOption(fd_.get(), SOL_SOCKET, force_option, value) != 0)
    (void)options_.calls->SetOption(fd_.get(), SOL_SOCKET, option, value);
  int real = 0;
  socklen_t length = sizeof real;
  if (options_.calls->GetOption(fd_.get(), SOL_SOCKET, option, &real, &length) != 0) return -1;
  return real;
}

Status NetlinkSocket::SizeBuffers() {
  const int send = WantBuffer(options_.buffer_bytes, SO_SNDBUFFORCE, SO_SNDBUF);
  if (send < 0) return SystemError("read size of send buffer");
  const int receive = WantBuffer(options_.buffer_bytes, SO_RCVBUFFORCE, SO_RCVBUF);
  if (receive < 0) return SystemError("read size of receive buffer");
  send_limit_ = static_cast<size_t>(std::max(send - kSendOverhead, 0));
  max_send_bytes_ = std::min(send_limit_, kMaxSendBytes);
  queue_bytes_ = static_cast<size_t>(receive);
  max_requests_per_send_ = static_cast<uint32_t>(std::max(receive / kErrorTruesize, 1));
  return Ok();
}

uint32_t NetlinkSocket::PortId() const {
  sockaddr_nl address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  return getsockname(fd_.get(), generic, &length) == 0 ? address.nl_pid : 0;
}

uint32_t NetlinkSocket::TakeSequence(uint32_t count) {
  // No wrap inside a run: sequence - first is the index of the record.
  if (next_sequence_ > std::numeric_limits<uint32_t>::max() - count) next_sequence_ = 1;
  const uint32_t first = next_sequence_;
  next_sequence_ += count;
  return first;
}

int NetlinkSocket::Send(std::span<const uint8_t> bytes) {
  if (!fd_.is_open()) {  // a dump failed, and so did opening a new socket
    const Status connected = Connect();
    if (!connected.ok()) return connected.error().code;
  }
  DebugMessages("sent", bytes);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  iovec vector{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_name = &kernel;
  message.msg_namelen = sizeof kernel;
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  ssize_t sent = 0;
  do {
    sent = options_.calls->Send(fd_.get(), &message, 0);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno;
  return static_cast<size_t>(sent) == bytes.size() ? 0 : EIO;
}

NetlinkSocket::Received NetlinkSocket::Receive() {
  receive_buffer_.resize(options_.receive_bytes);  // at the first call: some sockets are never used
  for (;;) {
    sockaddr_nl sender{};
    iovec vector{receive_buffer_.data(), receive_buffer_.size()};
    msghdr message{};
    message.msg_name = &sender;
    message.msg_namelen = sizeof sender;
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    const ssize_t received = options_.calls->Receive(fd_.get(), &message, MSG_DONTWAIT);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0) return {{}, errno};
    // Any process may send to this port. Only port 0 is the kernel.
    if (message.msg_namelen != sizeof sender || sender.nl_pid != 0) continue;
    if ((message.msg_flags & MSG_TRUNC) != 0) return {{}, EMSGSIZE};
    const std::span<const uint8_t> data{receive_buffer_.data(), static_cast<size_t>(received)};
    DebugMessages("received", data);
    return {data, 0};
  }
}

}  // namespace viaduct
