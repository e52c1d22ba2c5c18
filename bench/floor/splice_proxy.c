// A plain TCP proxy on loopback, the floor of the relay: epoll and splice(), nothing else. It knows one endpoint, no service, no
// limit and no time-out. Every failure of its own ends the program with a message.
//
//   splice_proxy PORT ENDPOINT_PORT THREADS    prints `ready`; each thread has its own listener (SO_REUSEPORT); runs until killed
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kBacklog = 4096, kEvents = 256, kPipeBytes = 1 << 20, kFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK };

struct Connection;

/// One end, and the pipe of the bytes that it has sent.
struct End {
  struct Connection* connection;
  struct End* other;
  int fd;
  int pipe[2];
  size_t piped;
  int has_ended;
};

struct Connection {
  struct End ends[2];
  int is_closed;
  struct Connection* next;  ///< to free after the round
};

static int target_port;

static void Fail(const char* what) {
  fprintf(stderr, "splice_proxy: %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct sockaddr_in Loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int Listen(int port) {
  const int one = 1;
  const struct sockaddr_in address = Loopback(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) Fail("socket");
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)) Fail("SO_REUSEADDR");
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one)) Fail("SO_REUSEPORT");
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) Fail("TCP_NODELAY");
  if (bind(fd, (const struct sockaddr*)&address, sizeof address)) Fail("bind");
  if (listen(fd, kBacklog)) Fail("listen");
  return fd;
}

static void Watch(int epoll, int fd, uint32_t events, void* target) {
  struct epoll_event event = {.events = events, .data.ptr = target};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) Fail("epoll_ctl");
}

static void OpenPipe(struct End* end) {
  if (pipe2(end->pipe, O_CLOEXEC | O_NONBLOCK)) Fail("pipe");
}

static void Accept(int epoll, int listener) {
  const struct sockaddr_in target = Loopback(target_port);
  const int one = 1;
  for (;;) {
    const int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    const int upstream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (upstream < 0) Fail("socket");
    setsockopt(upstream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(upstream, (const struct sockaddr*)&target, sizeof target) && errno != EINPROGRESS) Fail("connect");
    struct Connection* connection = calloc(1, sizeof *connection);
    if (connection == NULL) Fail("calloc");
    struct End* ends = connection->ends;
    ends[0] = (struct End){.connection = connection, .other = &ends[1], .fd = client};
    ends[1] = (struct End){.connection = connection, .other = &ends[0], .fd = upstream};
    for (int i = 0; i < 2; ++i) {
      OpenPipe(&ends[i]);
      Watch(epoll, ends[i].fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &ends[i]);
    }
  }
}

/// Moves the bytes of `from` to its other end. Negative: the connection is broken.
static int Move(struct End* from) {
  struct End* to = from->other;
  for (;;) {
    if (from->piped == 0) {
      if (from->has_ended) return 0;
      const ssize_t count = splice(from->fd, NULL, from->pipe[1], NULL, kPipeBytes, kFlags);
      if (count < 0) return errno == EAGAIN ? 0 : -1;
      if (count == 0) {
        from->has_ended = 1;
        return shutdown(to->fd, SHUT_WR);
      }
      from->piped = (size_t)count;
    }
    const ssize_t count = splice(from->pipe[0], NULL, to->fd, NULL, from->piped, kFlags);
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    from->piped -= (size_t)count;
  }
}

static void Close(struct Connection* connection) {
  for (int i = 0; i < 2; ++i) {
    close(connection->ends[i].fd);
    close(connection->ends[i].pipe[0]);
    close(connection->ends[i].pipe[1]);
  }
  connection->is_closed = 1;
}

static void* Run(void* port) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) Fail("epoll_create1");
  const int listener = Listen(*(const int*)port);
  Watch(epoll, listener, EPOLLIN, NULL);
  struct epoll_event events[kEvents];
  for (;;) {
    struct Connection* closed = NULL;
    const int count = epoll_wait(epoll, events, kEvents, -1);
    for (int i = 0; i < count; ++i) {
      struct End* end = events[i].data.ptr;
      if (end == NULL) {
        Accept(epoll, listener);
        continue;
      }
      struct Connection* connection = end->connection;
      if (connection->is_closed) continue;
      const int is_broken = Move(end) < 0 || Move(end->other) < 0;
      if (!is_broken && !(end->has_ended && end->other->has_ended)) continue;
      Close(connection);
      connection->next = closed;
      closed = connection;
    }
    while (closed != NULL) {
      struct Connection* next = closed->next;
      free(closed);
      closed = next;
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: splice_proxy PORT ENDPOINT_PORT THREADS\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  static int port;
  port = atoi(argv[1]);
  target_port = atoi(argv[2]);
  pthread_t thread;
  for (int i = 0; i < atoi(argv[3]); ++i)
    if (pthread_create(&thread, NULL, Run, &port)) Fail("pthread_create");
  usleep(100000);
  puts("ready");
  fflush(stdout);
  pause();
  return 0;
}
