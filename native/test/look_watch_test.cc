// Changes that end the wait of a watch. The kernel has counted tables, no IPVS and no sets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <linux/netfilter_ipv4/ip_tables.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "look/look_watch.h"

namespace viaduct::look {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Waiting advances the time.
class CountedTables : public SocketCalls {
 public:
  uint32_t entries = 4;
  int looks = 0;
  int poll_error = 0;
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
    if (const int code = poll_error; code != 0) return Fail(code);
    const int ready = poll(fds, count, 0);
    if (ready == 0) now += milliseconds(timeout_ms);
    return ready;
  }
  std::chrono::nanoseconds Now() override { return now; }
  void Sleep(std::chrono::nanoseconds time) override { now += time; }
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
  void SetUp() override { UseLock(); }
  void TearDown() override { std::filesystem::remove(lock_path); }

  LookWatch Open(const std::optional<WatchedSets>& sets = WatchedSets{"KUBE-", 500}) {
    auto watch = LookWatch::Open({families_, seconds(1), sets, lock_path}, kernel);
    EXPECT_TRUE(watch.ok());
    return std::move(watch.value());
  }
  /// Seconds waited, and the result.
  std::pair<double, Finding> Next(LookWatch& watch, milliseconds longest = seconds(5)) {
    const auto start = kernel.now;
    const auto found = watch.Next({}, longest);
    EXPECT_TRUE(found.ok());
    return {std::chrono::duration<double>(kernel.now - start).count(),
            found.ok() ? found.value() : Finding{}};
  }
  /// The calls of a tool, which creates an absent file.
  void UseLock() const { const Fd file(open(lock_path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600)); }

  CountedTables kernel;
  const std::string lock_path = testing::TempDir() + "look_watch_test." + std::to_string(getpid());

 private:
  std::vector<uint8_t> families_{AF_INET};
};

using Answer = std::pair<double, Finding>;
constexpr Finding kNothing;
constexpr Finding kOther{.is_other = true, .is_unlocked = false};
constexpr Finding kUnlocked{.is_other = false, .is_unlocked = true};

TEST_F(LookWatchTest, LooksOnceASecondAndReturnsOnlyForAChange) {
  LookWatch watch = Open();
  EXPECT_EQ(Next(watch), Answer(5, kNothing));
  EXPECT_EQ(kernel.looks, 6) << "the first at once";
  EXPECT_EQ(Next(watch), Answer(5, kNothing));
  EXPECT_EQ(kernel.looks, 11);
}

TEST_F(LookWatchTest, ReportsAChangeWithTheNextLook) {
  LookWatch watch = Open();
  kernel.on_look = [this] { kernel.entries += kernel.looks == 3 ? 1 : 0; };
  EXPECT_EQ(Next(watch), Answer(2, kOther));
  EXPECT_EQ(Next(watch), Answer(5, kNothing)) << "reported once";
}

TEST_F(LookWatchTest, ReportsChangesBetweenTwoCalls) {
  LookWatch watch = Open();
  EXPECT_EQ(Next(watch, milliseconds(500)), Answer(0.5, kNothing));
  kernel.entries++;
  EXPECT_EQ(Next(watch), Answer(0.5, kOther));
}

TEST_F(LookWatchTest, WithoutSetsReadsOnlyTheTables) {
  LookWatch watch = Open(std::nullopt);
  kernel.on_look = [this] { kernel.entries += kernel.looks == 3 ? 1 : 0; };
  EXPECT_EQ(Next(watch), Answer(2, kOther));
  EXPECT_EQ(kernel.asked, (std::set<std::string>{"filter", "nat"}));
  EXPECT_EQ(Next(watch), Answer(5, kNothing));
}

// Issue 18, C8: the tables have the same sizes, and yet may have other rules.
TEST_F(LookWatchTest, ReportsWithTheNextLookThatAnotherProgramReleasedTheLock) {
  for (const std::optional<WatchedSets>& sets : {std::optional<WatchedSets>(), {WatchedSets{"KUBE-", 500}}}) {
    LookWatch watch = Open(sets);
    EXPECT_EQ(Next(watch), Answer(5, kNothing));
    UseLock();
    UseLock();
    EXPECT_EQ(Next(watch), Answer(1, kUnlocked));
    EXPECT_EQ(Next(watch), Answer(5, kNothing));
    UseLock();
    kernel.entries++;
    EXPECT_EQ(Next(watch), Answer(1, Finding{.is_other = true, .is_unlocked = true}));
  }
}

TEST_F(LookWatchTest, IgnoresOurOwnUseOfTheLock) {
  xtables::XtablesLock lock(lock_path);
  const std::atomic<bool> is_hurried = false;
  LookWatch watch = Open();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(lock.Take(milliseconds(0), is_hurried).ok());
    EXPECT_EQ(Next(watch), Answer(5, kNothing));
  }
}

TEST_F(LookWatchTest, ReportsACreatedOrReplacedLockFile) {
  std::filesystem::remove(lock_path);
  LookWatch watch = Open();
  EXPECT_EQ(Next(watch), Answer(5, kNothing)) << "there is no file";
  UseLock();
  EXPECT_EQ(Next(watch), Answer(1, kUnlocked)) << "made";
  EXPECT_EQ(Next(watch), Answer(5, kNothing));
  const std::string former = lock_path + ".former";
  std::filesystem::rename(lock_path, former);  // its number is not given to the next file
  UseLock();
  EXPECT_EQ(Next(watch), Answer(1, kUnlocked)) << "replaced";
  EXPECT_EQ(Next(watch), Answer(5, kNothing));
  std::filesystem::remove(former);
  UseLock();
  EXPECT_EQ(Next(watch), Answer(1, kUnlocked)) << "used";
}

TEST_F(LookWatchTest, WorksWithoutTheLockWhileTheProcessHasNoFreeFiles) {
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &former), 0);
  // Opening fails; open files stay.
  const rlimit none{0, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  LockEvents events(lock_path);
  EXPECT_FALSE(events.Take());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &former), 0);
  EXPECT_TRUE(events.Take()) << "changes in the meantime are unknown";
  EXPECT_FALSE(events.Take());
}

// Issue 35, B9: the watch ended, and the kernel was asked every second for good.
TEST_F(LookWatchTest, GoesOnDuringAShortageOfMemory) {
  for (const int shortage : {ENOMEM, EAGAIN}) {
    LookWatch watch = Open();
    EXPECT_EQ(Next(watch), Answer(5, kNothing));
    kernel.poll_error = shortage;
    EXPECT_EQ(Next(watch), Answer(5, kNothing));
    kernel.entries++;
    EXPECT_EQ(Next(watch), Answer(1, kOther));
    kernel.poll_error = 0;
  }
}

TEST_F(LookWatchTest, IsWoken) {
  LookWatch watch = Open();
  watch.Wake();
  EXPECT_EQ(Next(watch), Answer(0, kNothing));
  kernel.on_look = [&] { watch.Wake(); };
  EXPECT_EQ(Next(watch), Answer(0, kNothing));
}

}  // namespace
}  // namespace viaduct::look
