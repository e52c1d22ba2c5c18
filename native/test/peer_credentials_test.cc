#include "system/peer_credentials.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "core/fd.h"

namespace viaduct::system {
namespace {

TEST(ReadPeerCredentials, NamesTheOtherProcess) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd one(pair[0]);
  const Fd other(pair[1]);
  const auto peer = ReadPeerCredentials(one.get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer.value().pid, getpid());
  EXPECT_EQ(peer.value().uid, geteuid());
}

TEST(ReadPeerCredentials, RefusesWhatIsNoUnixSocket) {
  const Fd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const struct {
    int fd;
    int code;
  } cases[] = {{tcp.get(), EAFNOSUPPORT}, {file.get(), ENOTSOCK}, {-1, EBADF}};
  for (const auto& [fd, code] : cases) {
    const auto peer = ReadPeerCredentials(fd);
    ASSERT_FALSE(peer.ok());
    EXPECT_EQ(peer.error().code, code);
  }
}

}  // namespace
}  // namespace viaduct::system
