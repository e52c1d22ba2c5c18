#include "system/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "core/fd.h"

namespace viaduct::system {
namespace {

/// A socket that listens at `name`, which begins with a NUL when it is abstract.
Fd Listen(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0) << strerror(errno);
  return fd;
}

std::string Received(const Fd& fd) {
  char text[64];
  const ssize_t length = recv(fd.get(), text, sizeof(text), 0);
  return length < 0 ? strerror(errno) : std::string(text, static_cast<size_t>(length));
}

TEST(NotifyServiceManager, SendsToAPath) {
  char folder[] = "/tmp/viaduct-notify-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/socket";
  const Fd manager = Listen(path);
  EXPECT_TRUE(NotifyServiceManager(path, "READY=1").ok());
  EXPECT_EQ(Received(manager), "READY=1");
  unlink(path.c_str());
  rmdir(folder);
}

TEST(NotifyServiceManager, SendsToAnAbstractName) {
  const std::string name = "viaduct-notify-" + std::to_string(getpid());
  const Fd manager = Listen(std::string(1, '\0') + name);
  EXPECT_TRUE(NotifyServiceManager("@" + name, "WATCHDOG=1").ok());
  EXPECT_EQ(Received(manager), "WATCHDOG=1");
}

TEST(NotifyServiceManager, DoesNotWaitForASlowManager) {
  const std::string name = "viaduct-behind-" + std::to_string(getpid());
  const Fd manager = Listen(std::string(1, '\0') + name);
  int code = 0;
  for (int i = 0; i < 10'000 && code == 0; i++) {
    const Status status = NotifyServiceManager("@" + name, "WATCHDOG=1");
    if (!status.ok()) code = status.error().code;
  }
  EXPECT_EQ(code, EAGAIN);
}

TEST(NotifyServiceManager, ReportsTheReasonOfAFailure) {
  const struct {
    std::string socket;
    int code;
  } cases[] = {
      {"/nonexistent/socket", ENOENT},
      {"vsock:2:1", EAFNOSUPPORT},
      {"", EAFNOSUPPORT},
      {"@" + std::string(108, 'x'), ENAMETOOLONG},
      {"/" + std::string(107, 'x'), ENAMETOOLONG},
      {"@viaduct-no-listener", ECONNREFUSED},
  };
  for (const auto& [socket, code] : cases) {
    const Status status = NotifyServiceManager(socket, "READY=1");
    ASSERT_FALSE(status.ok()) << socket;
    EXPECT_EQ(status.error().code, code) << socket;
  }
}

}  // namespace
}  // namespace viaduct::system
