// When a watch wakes whoever waits. The kernel has tables that are counted, and no IPVS and no sets.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <linux/netfilter_ipv4/ip_tables.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "look/look_watch.h"

namespace viaduct::look {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Time passes while somebody waits.
class CountedTables : public SocketCalls {
 public:
  uint32_t entries = 4;
  int looks = 0;
  std::set<std::string> asked;  ///< tables
  std::chrono::nanoseconds now = seconds(100);
  std::function<void()> on_look = [] {};

  int GetOption(int, int level, int name, void* value, socklen_t*) override {
    if (level == SOL_SOCKET) {
      constexpr int kBufferBytes = 16 << 20;
      memcpy(value, &kBufferBytes, sizeof kBufferBytes);
      return 0;
    }
    if (level != IPPROTO_IP || name != IPT_SO_GET_INFO) return Fail(ENOPROTOOPT);
    ipt_getinfo info{};
    asked.insert(static_cast<const char*>(value));
    if (strcmp(static_cast<const char*>(value), "nat") == 0) {
      ++looks;
      on_look();
    }
    info.num_entries = entries;
    memcpy(value, &info, sizeof info);
    return 0;
  }
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override {
    const int ready = poll(fds, count, 0);
    if (ready == 0) now += milliseconds(timeout_ms);
    return ready;
  }
  std::chrono::nanoseconds Now() override { return now; }
  int Socket(int, int, int) override { return eventfd(0, EFD_CLOEXEC); }
  int Bind(int, const sockaddr*, socklen_t) override { return 0; }
  int SetOption(int, int, int, std::span<const uint8_t>) override { return 0; }
  ssize_t Send(int, const msghdr*, int) override { return Fail(EPERM); }
  ssize_t Receive(int, msghdr*, int) override { return Fail(EAGAIN); }
  unsigned InterfaceIndex(const char*) override { return 0; }

 private:
  static int Fail(int code) {
    errno = code;
    return -1;
  }
};

class LookWatchTest : public testing::Test {
 protected:
  LookWatch Open(const std::optional<std::string>& set_prefix = "KUBE-") {
    auto watch = LookWatch::Open(families_, set_prefix, kernel);
    EXPECT_TRUE(watch.ok());
    return std::move(watch.value());
  }
  /// How long it waited, in seconds, and whether it saw something.
  std::pair<double, bool> Next(LookWatch& watch, milliseconds longest = seconds(5)) {
    const auto start = kernel.now;
    const auto is_other = watch.Next({}, longest);
    EXPECT_TRUE(is_other.ok());
    return {std::chrono::duration<double>(kernel.now - start).count(), is_other.ok() && is_other.value()};
  }

  CountedTables kernel;

 private:
  std::vector<uint8_t> families_{AF_INET};
};

using Answer = std::pair<double, bool>;

TEST_F(LookWatchTest, LooksOnceASecondAndWakesNobodyWhileAllIsTheSame) {
  LookWatch watch = Open();
  EXPECT_EQ(Next(watch), Answer(5, false));
  EXPECT_EQ(kernel.looks, 6) << "the first at once";
  EXPECT_EQ(Next(watch), Answer(5, false));
  EXPECT_EQ(kernel.looks, 11);
}

TEST_F(LookWatchTest, TellsWithTheLookThatSeesIt) {
  LookWatch watch = Open();
  kernel.on_look = [this] { kernel.entries += kernel.looks == 3 ? 1 : 0; };
  EXPECT_EQ(Next(watch), Answer(2, true));
  EXPECT_EQ(Next(watch), Answer(5, false)) << "what was told once";
}

TEST_F(LookWatchTest, TellsWhatHappenedBetweenTwoCalls) {
  LookWatch watch = Open();
  EXPECT_EQ(Next(watch, milliseconds(500)), Answer(0.5, false));
  kernel.entries++;
  EXPECT_EQ(Next(watch), Answer(0.5, true));
}

TEST_F(LookWatchTest, OfTablesAloneAsksForNoOther) {
  LookWatch watch = Open(std::nullopt);
  kernel.on_look = [this] { kernel.entries += kernel.looks == 3 ? 1 : 0; };
  EXPECT_EQ(Next(watch), Answer(2, true));
  EXPECT_EQ(kernel.asked, (std::set<std::string>{"filter", "nat"}));
  EXPECT_EQ(Next(watch), Answer(5, false));
}

TEST_F(LookWatchTest, IsWoken) {
  LookWatch watch = Open();
  watch.Wake();
  EXPECT_EQ(Next(watch), Answer(0, false));
  kernel.on_look = [&] { watch.Wake(); };
  EXPECT_EQ(Next(watch), Answer(0, false));
}

}  // namespace
}  // namespace viaduct::look
