// Hostile clients and endpoints, and a client that measures a service beside them. IPv4. Every failure ends the program with a message.
//
//   flood probe PROTOCOL SECONDS ADDRESS PORT      100 requests per second, each on a socket of its own, for `tcp` or `udp`; prints
//                                                  {"tried": .., "failed": .., "p50Us": .., "p99Us": ..}
//   flood slow SECONDS COUNT ADDRESS PORT          COUNT connections send one byte per second each
//   flood silent SECONDS COUNT ADDRESS PORT        COUNT connections send nothing
//   flood push SECONDS COUNT ADDRESS PORT          COUNT connections send as much as the kernel takes
//   flood syn SECONDS COUNT ADDRESS PORT           COUNT SYN segments per second from random sources in 10.128.0.0/9; needs CAP_NET_RAW
//   flood udp SECONDS COUNT ADDRESS PORT           COUNT datagrams per second, likewise
//   flood sink ADDRESS PORT                        an endpoint that accepts and never reads; prints `ready`
//   flood serve ADDRESS PORT                       an endpoint that sends back each byte; prints `ready`
//   flood echo ADDRESS PORT                        an endpoint that sends back each datagram; prints `ready`
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kMostRequests = 100000, kMostClients = 32768, kAnswerSeconds = 2, kPushBytes = 1 << 16 };

static void Fail(const char* what) {
  fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void SleepUntil(double due) {
  const double left = due - Now();
  if (left <= 0) return;
  const struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
  nanosleep(&wait, NULL);
}

static struct sockaddr_in At(const char* address, const char* port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1) Fail("address");
  return at;
}

static int Open(int type) {
  const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("socket");
  return fd;
}

// One request of one byte. Its time in seconds; -1: no answer.
static double Ask(const struct sockaddr_in* at, int type) {
  const double start = Now();
  const struct timeval limit = {kAnswerSeconds, 0};
  const int fd = Open(type);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  char byte = 'x';
  const int is_answered = connect(fd, (const struct sockaddr*)at, sizeof *at) == 0 &&
                          send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) == 1;
  const double took = Now() - start;
  close(fd);
  return is_answered ? took : -1;
}

static int Compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void Probe(int type, double seconds, const struct sockaddr_in* at) {
  static double times[kMostRequests];
  size_t count = 0, failed = 0;
  const double start = Now();
  for (double due = start; Now() < start + seconds && count + failed < kMostRequests; due += 0.01) {
    SleepUntil(due);
    const double took = Ask(at, type);
    if (took < 0) ++failed;
    else times[count++] = took;
  }
  qsort(times, count, sizeof *times, Compare);
  const double p50 = count == 0 ? 0 : times[count / 2], p99 = count == 0 ? 0 : times[count * 99 / 100];
  printf("{\"tried\": %zu, \"failed\": %zu, \"p50Us\": %.0f, \"p99Us\": %.0f}\n", count + failed, failed, p50 * 1e6,
         p99 * 1e6);
}

// Connections that the endpoint of the program has to bear. Those that are refused or reset are left alone.
static void Connections(const char* what, double seconds, int count, const struct sockaddr_in* at) {
  static int fds[kMostClients];
  static char bytes[kPushBytes];
  const double end = Now() + seconds;
  for (int i = 0; i < count; ++i) {
    fds[i] = Open(SOCK_STREAM | SOCK_NONBLOCK);
    if (connect(fds[i], (const struct sockaddr*)at, sizeof *at) != 0 && errno != EINPROGRESS) Fail("connect");
    // Some 20,000 connections per second.
    if (i % 100 == 99) SleepUntil(Now() + 0.005);
  }
  const size_t size = strcmp(what, "push") == 0 ? sizeof bytes : strcmp(what, "slow") == 0 ? 1 : 0;
  const double period = strcmp(what, "slow") == 0 ? 1 : 0.01;
  for (double due = Now(); Now() < end; due += period) {
    for (int i = 0; size > 0 && i < count; ++i) (void)!send(fds[i], bytes, size, MSG_NOSIGNAL);
    SleepUntil(due + period);
  }
}

static uint16_t Sum(const void* data, size_t size, uint32_t sum) {
  const uint8_t* bytes = data;
  for (size_t i = 0; i < size; i += 2) sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)sum;
}

struct Packet {
  struct iphdr ip;
  union {
    struct tcphdr tcp;
    struct udphdr udp;
  };
};

static void Spoof(int protocol, double seconds, double rate, const struct sockaddr_in* at) {
  const int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
  if (fd < 0) Fail("raw socket");
  const double start = Now();
  uint64_t sent = 0;
  uint32_t random = 12345;
  while (Now() < start + seconds) {
    for (; (double)sent < (Now() - start) * rate; ++sent) {
      random = random * 1664525 + 1013904223;
      struct Packet packet = {.ip = {.ihl = 5, .version = 4, .ttl = 64, .protocol = (uint8_t)protocol}};
      packet.ip.saddr = htonl(0x0a800000 | random >> 9);
      packet.ip.daddr = at->sin_addr.s_addr;
      const uint16_t port = htons((uint16_t)(1024 + random % 60000));
      size_t size = sizeof packet.ip;
      if (protocol == IPPROTO_TCP) {
        packet.tcp = (struct tcphdr){.source = port, .dest = at->sin_port, .seq = random, .doff = 5, .syn = 1};
        packet.tcp.window = htons(65535);
        const uint32_t pseudo = Sum(&packet.ip.saddr, 8, IPPROTO_TCP + sizeof packet.tcp);
        packet.tcp.check = htons((uint16_t)~Sum(&packet.tcp, sizeof packet.tcp, pseudo));
        size += sizeof packet.tcp;
      } else {
        packet.udp = (struct udphdr){.source = port, .dest = at->sin_port, .len = htons(sizeof packet.udp)};
        size += sizeof packet.udp;
      }
      packet.ip.tot_len = htons((uint16_t)size);
      // Ignoring the result: a full queue loses a packet, as on a network.
      (void)!sendto(fd, &packet, size, 0, (const struct sockaddr*)at, sizeof *at);
    }
    SleepUntil(Now() + 0.001);
  }
  printf("{\"sent\": %llu}\n", (unsigned long long)sent);
}

static void Serve(const struct sockaddr_in* at) {
  static char bytes[65536];
  const int listener = Open(SOCK_STREAM | SOCK_NONBLOCK);
  if (bind(listener, (const struct sockaddr*)at, sizeof *at) != 0 || listen(listener, 4096) != 0) Fail("bind");
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = listener}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  printf("ready\n");
  fflush(stdout);
  while (epoll_wait(epoll, &event, 1, -1) >= 0) {
    const int fd = event.data.fd;
    if (fd == listener) {
      event.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (event.data.fd >= 0) epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
      event.data.fd = listener;
      continue;
    }
    const ssize_t size = recv(fd, bytes, sizeof bytes, 0);
    if (size <= 0) close(fd);
    else (void)!send(fd, bytes, (size_t)size, MSG_NOSIGNAL);
  }
}

static void Sink(const struct sockaddr_in* at) {
  const int fd = Open(SOCK_STREAM);
  if (bind(fd, (const struct sockaddr*)at, sizeof *at) != 0 || listen(fd, 4096) != 0) Fail("bind");
  printf("ready\n");
  fflush(stdout);
  for (;;) (void)!accept(fd, NULL, NULL);
}

static void Echo(const struct sockaddr_in* at) {
  static char bytes[65536];
  const int fd = Open(SOCK_DGRAM);
  if (bind(fd, (const struct sockaddr*)at, sizeof *at) != 0) Fail("bind");
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    const ssize_t size = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr*)&from, &length);
    if (size >= 0) (void)!sendto(fd, bytes, (size_t)size, 0, (struct sockaddr*)&from, length);
  }
}

int main(int count, char** words) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  signal(SIGPIPE, SIG_IGN);
  const char* what = count > 1 ? words[1] : "";
  if (count == 4) {
    const struct sockaddr_in at = At(words[2], words[3]);
    if (strcmp(what, "sink") == 0) Sink(&at);
    if (strcmp(what, "echo") == 0) Echo(&at);
    if (strcmp(what, "serve") == 0) Serve(&at);
  }
  if (count != 6) {
    errno = EINVAL;
    Fail("words");
  }
  const struct sockaddr_in at = At(words[4], words[5]);
  if (strcmp(what, "probe") == 0)
    Probe(strcmp(words[2], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM, atof(words[3]), &at);
  else if (strcmp(what, "syn") == 0)
    Spoof(IPPROTO_TCP, atof(words[2]), atof(words[3]), &at);
  else if (strcmp(what, "udp") == 0)
    Spoof(IPPROTO_UDP, atof(words[2]), atof(words[3]), &at);
  else
    Connections(what, atof(words[2]), atoi(words[3]), &at);
  return 0;
}
