// Load for a TCP proxy on loopback, and the endpoint behind it. Every failure ends the program with a message.
//
//   stream_load serve PORT                         the endpoint: an end that sends `d` is discarded, any other is echoed; prints `ready`
//   stream_load bytes SECONDS COUNT PORT...        COUNT connections, spread over the ports, send for SECONDS; prints
//                                                  {"bytesPerSecond": ..}
//   stream_load connects N PORT...                 N connections, 16 at a time, each with a request of one byte and its answer;
//                                                  prints {"perSecond": ..}
//   stream_load latency N PORT                     N requests of one byte on one connection; prints {"p50Us": .., "p99Us": ..}
//   stream_load idle COUNT PORT                    opens COUNT connections with an answer each, prints `ready` and keeps them
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kBacklog = 4096, kEvents = 256, kAtOnce = 16, kBufferBytes = 1 << 17, kMostPorts = 64 };

static char buffer[kBufferBytes];

static void Fail(const char* what) {
  fprintf(stderr, "stream_load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct sockaddr_in Loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int Connect(int port) {
  const int one = 1;
  const struct linger reset = {.l_onoff = 1, .l_linger = 0};
  const struct sockaddr_in address = Loopback(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("socket");
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) Fail("TCP_NODELAY");
  // No connection in TIME_WAIT occupies a port.
  if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset)) Fail("SO_LINGER");
  if (connect(fd, (const struct sockaddr*)&address, sizeof address)) Fail("connect");
  return fd;
}

static void Watch(int epoll, int fd, uint32_t events, uint64_t mark) {
  struct epoll_event event = {.events = events, .data.u64 = mark};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) Fail("epoll_ctl");
}

static int OpenEpoll(void) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) Fail("epoll_create1");
  return epoll;
}

static void Serve(int port) {
  static uint8_t is_discarded[1 << 20];  // by descriptor
  const int one = 1;
  const struct sockaddr_in address = Loopback(port);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) Fail("socket");
  if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)) Fail("SO_REUSEADDR");
  if (bind(listener, (const struct sockaddr*)&address, sizeof address)) Fail("bind");
  if (listen(listener, kBacklog)) Fail("listen");
  const int epoll = OpenEpoll();
  Watch(epoll, listener, EPOLLIN, (uint64_t)listener);
  puts("ready");
  fflush(stdout);
  struct epoll_event events[kEvents];
  for (;;) {
    const int count = epoll_wait(epoll, events, kEvents, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = (int)events[i].data.u64;
      if (fd == listener) {
        const int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        is_discarded[client] = 0;
        Watch(epoll, client, EPOLLIN, (uint64_t)client);
        continue;
      }
      // MSG_TRUNC discards the bytes without a copy.
      const ssize_t got = is_discarded[fd] ? recv(fd, NULL, 1 << 20, MSG_TRUNC) : recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0)
        close(fd);
      else if (!is_discarded[fd] && buffer[0] == 'd')
        is_discarded[fd] = 1;
      else if (!is_discarded[fd] && send(fd, buffer, (size_t)got, MSG_NOSIGNAL) < 0)
        close(fd);
    }
  }
}

static void SendBytes(int seconds, int count, const int* ports, int port_count) {
  const int epoll = OpenEpoll();
  memset(buffer, 'd', sizeof buffer);
  for (int i = 0; i < count; ++i) {
    const int fd = Connect(ports[i % port_count]);
    if (send(fd, "d", 1, 0) != 1) Fail("send");
    usleep(10000);
    Watch(epoll, fd, EPOLLOUT, (uint64_t)fd);
  }
  int64_t sent = 0;
  const int64_t start = Now();
  const int64_t end = start + seconds * 1000000000LL;
  struct epoll_event events[kEvents];
  while (Now() < end) {
    const int ready = epoll_wait(epoll, events, kEvents, 100);
    for (int i = 0; i < ready; ++i) {
      const ssize_t taken = send((int)events[i].data.u64, buffer, sizeof buffer, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (taken < 0 && errno != EAGAIN) Fail("send");
      if (taken > 0) sent += taken;
    }
  }
  printf("{\"bytesPerSecond\": %.0f}\n", (double)sent / ((double)(Now() - start) / 1e9));
}

static void Ask(int fd) {
  if (send(fd, "x", 1, MSG_NOSIGNAL) != 1) Fail("send");
}

static void MakeConnections(int total, const int* ports, int port_count) {
  const int epoll = OpenEpoll();
  const int64_t start = Now();
  int opened = 0;
  for (; opened < kAtOnce && opened < total; ++opened) {
    const int fd = Connect(ports[opened % port_count]);
    Ask(fd);
    Watch(epoll, fd, EPOLLIN, (uint64_t)fd);
  }
  struct epoll_event events[kEvents];
  for (int done = 0; done < total;) {
    const int ready = epoll_wait(epoll, events, kEvents, -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = (int)events[i].data.u64;
      if (recv(fd, buffer, 1, 0) != 1) Fail("recv");
      close(fd);
      ++done;
      if (opened == total) continue;
      const int next = Connect(ports[opened++ % port_count]);
      Ask(next);
      Watch(epoll, next, EPOLLIN, (uint64_t)next);
    }
  }
  printf("{\"perSecond\": %.0f}\n", total / ((double)(Now() - start) / 1e9));
}

static int Compare(const void* a, const void* b) {
  const int64_t left = *(const int64_t*)a;
  const int64_t right = *(const int64_t*)b;
  return left < right ? -1 : left > right;
}

static void MeasureLatency(int total, int port) {
  const int fd = Connect(port);
  int64_t* times = calloc((size_t)total, sizeof *times);
  if (times == NULL) Fail("calloc");
  for (int i = 0; i < total; ++i) {
    const int64_t start = Now();
    Ask(fd);
    if (recv(fd, buffer, 1, 0) != 1) Fail("recv");
    times[i] = Now() - start;
  }
  qsort(times, (size_t)total, sizeof *times, Compare);
  printf("{\"p50Us\": %.1f, \"p99Us\": %.1f}\n", (double)times[total / 2] / 1e3, (double)times[total * 99 / 100] / 1e3);
  free(times);
}

static void KeepIdle(int count, int port) {
  for (int i = 0; i < count; ++i) {
    const int fd = Connect(port);
    Ask(fd);
    if (recv(fd, buffer, 1, 0) != 1) Fail("recv");
  }
  puts("ready");
  fflush(stdout);
  pause();
}

int main(int argc, char** argv) {
  int ports[kMostPorts];
  int port_count = 0;
  const char* command = argc > 1 ? argv[1] : "";
  const int first = strcmp(command, "bytes") == 0 ? 4 : 3;
  signal(SIGPIPE, SIG_IGN);
  for (int i = first; i < argc && port_count < kMostPorts; ++i) ports[port_count++] = atoi(argv[i]);
  if (strcmp(command, "serve") == 0 && argc == 3)
    Serve(atoi(argv[2]));
  else if (strcmp(command, "bytes") == 0 && port_count > 0)
    SendBytes(atoi(argv[2]), atoi(argv[3]), ports, port_count);
  else if (strcmp(command, "connects") == 0 && port_count > 0)
    MakeConnections(atoi(argv[2]), ports, port_count);
  else if (strcmp(command, "latency") == 0 && port_count == 1)
    MeasureLatency(atoi(argv[2]), ports[0]);
  else if (strcmp(command, "idle") == 0 && port_count == 1)
    KeepIdle(atoi(argv[2]), ports[0]);
  else {
    fprintf(stderr, "usage: see the first lines of stream_load.c\n");
    return 2;
  }
  return 0;
}
