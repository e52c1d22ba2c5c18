// The clients and the server of the iptables benchmark. Addresses are IPv4. Every failure ends the program with a message.
//
//   connect serve PORT             answers every connection with its local address
//   connect probe TICK_US BURST    reads lines `ID ADDRESS PORT EXPECTED`; connects BURST times per tick to each target (to 4 per tick, in
//                                  turn) until EXPECTED (`any`: any server) answers; then prints `ID NANOSECONDS` (CLOCK_MONOTONIC)
//   connect rate ADDRESS PORT N [LISTEN]
//                                  makes N connections one after the other, to its own listener on port LISTEN (default: 8080), so that
//                                  no other process must be scheduled; prints {"perSecond": .., "p50Us": .., "p99Us": ..}
//   connect sticky ADDRESS PORT SOURCE N TRIES
//                                  N clients with the addresses from SOURCE on connect TRIES times each, all for the first time before
//                                  one connects again; prints {"clients": N, "kept": .., "failed": ..}: the clients that reached the
//                                  same server each time, and those of which a connection failed
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kBacklog = 4096, kWarmUp = 500, kMostPending = 512, kMostPerTick = 4 };
enum { kRealPort = 8080, kAnswerTimeoutUs = 200000 };

static void Fail(const char* what) {
  fprintf(stderr, "connect: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct sockaddr_in Address(const char* text, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
    fprintf(stderr, "connect: %s is no IPv4 address\n", text);
    exit(1);
  }
  return address;
}

static int Listen(int port) {
  const int one = 1;
  const struct sockaddr_in any = Address("0.0.0.0", port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("socket");
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)) Fail("SO_REUSEADDR");
  if (bind(fd, (const struct sockaddr*)&any, sizeof any)) Fail("bind");
  if (listen(fd, kBacklog)) Fail("listen");
  return fd;
}

/// A socket whose close sends a reset, so that no connection in TIME_WAIT occupies a port.
static int Socket(void) {
  const struct linger reset = {.l_onoff = 1, .l_linger = 0};
  const struct timeval limit = {.tv_usec = kAnswerTimeoutUs};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("socket");
  if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset)) Fail("SO_LINGER");
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) Fail("SO_RCVTIMEO");
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit)) Fail("SO_SNDTIMEO");
  return fd;
}

static struct in_addr LocalAddress(int fd) {
  struct sockaddr_in local;
  socklen_t size = sizeof local;
  if (getsockname(fd, (struct sockaddr*)&local, &size)) Fail("getsockname");
  return local.sin_addr;
}

static void Serve(int port) {
  const int listener = Listen(port);
  puts("ready");
  fflush(stdout);
  for (;;) {
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const struct in_addr local = LocalAddress(fd);
    // Ignoring the result: the client may have closed the connection.
    (void)!send(fd, &local, sizeof local, MSG_NOSIGNAL);
    close(fd);
  }
}

typedef struct {
  char id[32];
  struct sockaddr_in to;
  int expects_refusal;
  struct in_addr expected;  // 0.0.0.0: any
} Target;

static int IsAsExpected(const Target* target) {
  struct in_addr answer = {0};
  const int fd = Socket();
  int is_as_expected = 0;
  if (connect(fd, (const struct sockaddr*)&target->to, sizeof target->to))
    is_as_expected = target->expects_refusal && errno == ECONNREFUSED;
  else if (!target->expects_refusal && recv(fd, &answer, sizeof answer, MSG_WAITALL) == sizeof answer)
    is_as_expected = !target->expected.s_addr || answer.s_addr == target->expected.s_addr;
  close(fd);
  return is_as_expected;
}

static void ReadTarget(Target* target) {
  char line[128], address[16], expected[16];
  int port;
  if (!fgets(line, sizeof line, stdin)) exit(0);
  if (sscanf(line, "%31s %15s %d %15s", target->id, address, &port, expected) != 4) {
    fprintf(stderr, "connect: not a target: %s", line);
    exit(1);
  }
  target->to = Address(address, port);
  target->expects_refusal = !strcmp(expected, "none");
  const int has_address = !target->expects_refusal && strcmp(expected, "any");
  target->expected = Address(has_address ? expected : "0.0.0.0", 0).sin_addr;
}

static int IsSeen(const Target* target, int burst) {
  for (int i = 0; i < burst; ++i) {
    if (IsAsExpected(target)) return 1;
  }
  return 0;
}

static void Probe(int tick_us, int burst) {
  static Target pending[kMostPending];
  int count = 0, next = 0;
  setvbuf(stdin, NULL, _IONBF, 0);  // poll() does not see input in a buffer of stdio
  for (;;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (count < kMostPending && poll(&input, 1, count == 0 ? -1 : 0) > 0) ReadTarget(&pending[count++]);
    const int64_t start = Now();
    for (int left = count < kMostPerTick ? count : kMostPerTick; left > 0; --left, ++next) {
      if (next >= count) next = 0;
      if (!IsSeen(&pending[next], burst)) continue;
      printf("%s %lld\n", pending[next].id, (long long)Now());
      fflush(stdout);
      pending[next] = pending[--count];
    }
    const int64_t left_us = tick_us - (Now() - start) / 1000;
    if (left_us > 0) usleep((useconds_t)left_us);
  }
}

static int Compare(const void* a, const void* b) {
  const int64_t left = *(const int64_t*)a, right = *(const int64_t*)b;
  return (left > right) - (left < right);
}

static void Rate(struct sockaddr_in to, int count, int port) {
  const int listener = Listen(port);
  int64_t* times = calloc((size_t)count, sizeof *times);
  int64_t start = 0;
  if (!times) Fail("calloc");
  for (int i = -kWarmUp; i < count; ++i) {
    const int64_t before = Now();
    if (i == 0) start = before;
    const int fd = Socket();
    const int64_t opened = Now();
    if (connect(fd, (const struct sockaddr*)&to, sizeof to)) Fail("connect");
    if (i >= 0) times[i] = Now() - opened;
    const int served = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (served < 0) Fail("accept4");
    close(fd);
    close(served);
  }
  const double seconds = (double)(Now() - start) / 1e9;
  qsort(times, (size_t)count, sizeof *times, Compare);
  printf("{\"perSecond\": %.0f, \"p50Us\": %.2f, \"p99Us\": %.2f}\n", count / seconds,
         (double)times[count / 2] / 1000, (double)times[count * 99 / 100] / 1000);
}

/// The server's address that a connection from `source` reaches; 0.0.0.0: it failed.
static struct in_addr Reached(const struct sockaddr_in* source, const struct sockaddr_in* to) {
  struct in_addr answer = {0};
  const int fd = Socket();
  if (bind(fd, (const struct sockaddr*)source, sizeof *source)) Fail("bind");
  if (connect(fd, (const struct sockaddr*)to, sizeof *to) ||
      recv(fd, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
    answer.s_addr = 0;
  close(fd);
  return answer;
}

static void Sticky(struct sockaddr_in to, struct sockaddr_in source, int clients, int tries) {
  typedef struct {
    struct in_addr server;
    int has_moved, has_failed;
  } Client;
  Client* all = calloc((size_t)clients, sizeof *all);
  const uint32_t first = ntohl(source.sin_addr.s_addr);
  int kept = 0, failed = 0;
  if (!all) Fail("calloc");
  for (int i = 0; i < tries; ++i) {
    for (int j = 0; j < clients; ++j) {
      source.sin_addr.s_addr = htonl(first + (uint32_t)j);
      const struct in_addr server = Reached(&source, &to);
      if (i == 0) all[j].server = server;
      all[j].has_failed |= server.s_addr == 0;
      all[j].has_moved |= server.s_addr != all[j].server.s_addr;
    }
  }
  for (int j = 0; j < clients; ++j) {
    failed += all[j].has_failed;
    kept += !all[j].has_failed && !all[j].has_moved;
  }
  printf("{\"clients\": %d, \"kept\": %d, \"failed\": %d}\n", clients, kept, failed);
}

int main(int count, char** arguments) {
  if (count == 3 && !strcmp(arguments[1], "serve")) {
    Serve(atoi(arguments[2]));
  } else if (count == 4 && !strcmp(arguments[1], "probe")) {
    Probe(atoi(arguments[2]), atoi(arguments[3]));
  } else if ((count == 5 || count == 6) && !strcmp(arguments[1], "rate")) {
    Rate(Address(arguments[2], atoi(arguments[3])), atoi(arguments[4]),
         count == 6 ? atoi(arguments[5]) : kRealPort);
  } else if (count == 7 && !strcmp(arguments[1], "sticky")) {
    Sticky(Address(arguments[2], atoi(arguments[3])), Address(arguments[4], 0), atoi(arguments[5]),
           atoi(arguments[6]));
  } else {
    fputs("usage: connect serve PORT | probe TICK_US BURST | rate ADDRESS PORT N [LISTEN] |\n"
          "       connect sticky ADDRESS PORT SOURCE N TRIES\n", stderr);
    return 2;
  }
  return 0;
}
