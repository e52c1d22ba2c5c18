// The lower bound for the benchmark of Viaduct: programs the same state with a plain C loop, without code of Viaduct.
//
//   floor add N M        N virtual servers with M real servers each: one message per send, one acknowledgement each
//   floor add-batch N M  the same in 64 KiB sends without acknowledgements (the limit of the interface)
//   floor read N         one GET_DEST dump per virtual server
//   floor routes N       N local host routes: one message per send, one acknowledgement each
//   floor routes-batch N the same in 64 KiB sends without acknowledgements
//   floor addresses N    N addresses on the device kube-ipvs0, one message per send, one acknowledgement each
//   floor sets N M       N entries of a hash:ip,port, N of a hash:ip and M of a bitmap:port, as many per message as fit
//
// Prints one JSON line: {"seconds": s, "messages": n}. Exits with 1 and a message if the kernel refuses an operation.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/if_addr.h>
#include <linux/ip_vs.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kBatchBytes = 64 * 1024, kReceiveBytes = 64 * 1024, kFirstVip = 0x0a600001, kFirstReal = 0x0a800001 };

static int socket_fd;
static uint32_t sequence;
static long messages;
static uint16_t ipvs_family;
static char buffer[kBatchBytes + 512];
static size_t used;

static void Fail(const char* what, int error) {
  fprintf(stderr, "floor: %s: %s\n", what, strerror(error));
  exit(1);
}

static struct nlmsghdr* Begin(uint16_t type, uint16_t flags) {
  struct nlmsghdr* header = (struct nlmsghdr*)(buffer + used);
  memset(header, 0, 512);
  header->nlmsg_type = type;
  header->nlmsg_flags = NLM_F_REQUEST | flags;
  header->nlmsg_seq = ++sequence;
  header->nlmsg_len = NLMSG_HDRLEN;
  messages++;
  return header;
}

static void* Append(struct nlmsghdr* header, size_t size) {
  void* at = (char*)header + header->nlmsg_len;
  header->nlmsg_len += NLMSG_ALIGN(size);
  return at;
}

static struct nlattr* Attribute(struct nlmsghdr* header, uint16_t type, const void* data, size_t size) {
  struct nlattr* attribute = Append(header, NLA_HDRLEN + size);
  attribute->nla_type = type;
  attribute->nla_len = (uint16_t)(NLA_HDRLEN + size);
  if (size > 0) memcpy((char*)attribute + NLA_HDRLEN, data, size);
  return attribute;
}

static void AttributeU16(struct nlmsghdr* header, uint16_t type, uint16_t value) {
  Attribute(header, type, &value, sizeof value);
}

static void AttributeU32(struct nlmsghdr* header, uint16_t type, uint32_t value) {
  Attribute(header, type, &value, sizeof value);
}

static void EndNest(struct nlmsghdr* header, struct nlattr* nest) {
  nest->nla_len = (uint16_t)((char*)header + header->nlmsg_len - (char*)nest);
}

static void Send(void) {
  if (used == 0) return;
  if (send(socket_fd, buffer, used, 0) != (ssize_t)used) Fail("send", errno);
  used = 0;
}

/// Reads replies until an acknowledgement or the end of a dump.
static void AwaitEnd(const char* what) {
  static char reply[kReceiveBytes];
  for (;;) {
    ssize_t length = recv(socket_fd, reply, sizeof reply, 0);
    if (length < 0) Fail(what, errno);
    for (struct nlmsghdr* m = (struct nlmsghdr*)reply; NLMSG_OK(m, length); m = NLMSG_NEXT(m, length)) {
      if (m->nlmsg_type == NLMSG_DONE) return;
      if (m->nlmsg_type != NLMSG_ERROR) continue;
      int error = *(int*)NLMSG_DATA(m);
      if (error != 0) Fail(what, -error);
      return;
    }
  }
}

/// Sends the built messages: at once with an acknowledgement, or in a batch of 64 KiB.
static void Finish(struct nlmsghdr* header, int batch, const char* what) {
  if (!batch) header->nlmsg_flags |= NLM_F_ACK;
  used += header->nlmsg_len;
  if (batch && used < kBatchBytes) return;
  Send();
  if (!batch) AwaitEnd(what);
}

/// A batch requests no acknowledgement, so any answer after it is an error.
static void ExpectNoError(void) {
  char reply[4096];
  if (recv(socket_fd, reply, sizeof reply, MSG_DONTWAIT) > 0) Fail("batch", EIO);
}

static void Open(int protocol) {
  int size = 8 << 20;
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  socket_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (socket_fd < 0) Fail("socket", errno);
  setsockopt(socket_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
  setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
  if (connect(socket_fd, (struct sockaddr*)&kernel, sizeof kernel) < 0) Fail("connect", errno);
}

static void ResolveIpvs(void) {
  char reply[4096];
  struct nlmsghdr* header = Begin(GENL_ID_CTRL, 0);
  struct genlmsghdr* genl = Append(header, GENL_HDRLEN);
  genl->cmd = CTRL_CMD_GETFAMILY;
  genl->version = 1;
  Attribute(header, CTRL_ATTR_FAMILY_NAME, "IPVS", 5);
  used = header->nlmsg_len;
  Send();
  ssize_t length = recv(socket_fd, reply, sizeof reply, 0);
  struct nlmsghdr* m = (struct nlmsghdr*)reply;
  if (length <= 0 || m->nlmsg_type == NLMSG_ERROR) Fail("resolve IPVS", ENOENT);
  for (char* at = (char*)NLMSG_DATA(m) + GENL_HDRLEN; at < reply + m->nlmsg_len;) {
    struct nlattr* attribute = (struct nlattr*)at;
    if (attribute->nla_type == CTRL_ATTR_FAMILY_ID) ipvs_family = *(uint16_t*)(at + NLA_HDRLEN);
    at += NLA_ALIGN(attribute->nla_len);
  }
  messages = 0;
}

static struct nlmsghdr* BeginIpvs(uint8_t command, uint16_t flags) {
  struct nlmsghdr* header = Begin(ipvs_family, flags);
  struct genlmsghdr* genl = Append(header, GENL_HDRLEN);
  genl->cmd = command;
  genl->version = 1;
  return header;
}

static void PutServiceKey(struct nlmsghdr* header, uint32_t index) {
  uint32_t address = htonl(kFirstVip + index);
  AttributeU16(header, IPVS_SVC_ATTR_AF, AF_INET);
  AttributeU16(header, IPVS_SVC_ATTR_PROTOCOL, IPPROTO_TCP);
  Attribute(header, IPVS_SVC_ATTR_ADDR, &address, sizeof address);
  AttributeU16(header, IPVS_SVC_ATTR_PORT, htons(80));
}

static void AddService(uint32_t index, int batch) {
  struct ip_vs_flags flags = {.flags = 0, .mask = ~0u};
  struct nlmsghdr* header = BeginIpvs(IPVS_CMD_NEW_SERVICE, 0);
  struct nlattr* nest = Attribute(header, IPVS_CMD_ATTR_SERVICE, NULL, 0);
  PutServiceKey(header, index);
  Attribute(header, IPVS_SVC_ATTR_SCHED_NAME, "rr", 3);
  Attribute(header, IPVS_SVC_ATTR_FLAGS, &flags, sizeof flags);
  AttributeU32(header, IPVS_SVC_ATTR_TIMEOUT, 0);
  AttributeU32(header, IPVS_SVC_ATTR_NETMASK, ~0u);
  EndNest(header, nest);
  Finish(header, batch, "add virtual server");
}

static void AddReal(uint32_t service, uint32_t real, int batch) {
  uint32_t address = htonl(kFirstReal + real);
  struct nlmsghdr* header = BeginIpvs(IPVS_CMD_NEW_DEST, 0);
  struct nlattr* nest = Attribute(header, IPVS_CMD_ATTR_SERVICE, NULL, 0);
  PutServiceKey(header, service);
  EndNest(header, nest);
  nest = Attribute(header, IPVS_CMD_ATTR_DEST, NULL, 0);
  AttributeU16(header, IPVS_DEST_ATTR_ADDR_FAMILY, AF_INET);
  Attribute(header, IPVS_DEST_ATTR_ADDR, &address, sizeof address);
  AttributeU16(header, IPVS_DEST_ATTR_PORT, htons(8080));
  AttributeU32(header, IPVS_DEST_ATTR_FWD_METHOD, 0);
  AttributeU32(header, IPVS_DEST_ATTR_WEIGHT, 1);
  AttributeU32(header, IPVS_DEST_ATTR_U_THRESH, 0);
  AttributeU32(header, IPVS_DEST_ATTR_L_THRESH, 0);
  EndNest(header, nest);
  Finish(header, batch, "add real server");
}

static void AddAll(uint32_t services, uint32_t reals, int batch) {
  for (uint32_t i = 0; i < services; i++) {
    AddService(i, batch);
    for (uint32_t j = 0; j < reals; j++) AddReal(i, i * reals + j, batch);
  }
  Send();
  if (batch) ExpectNoError();
}

static void ReadAll(uint32_t services) {
  for (uint32_t i = 0; i < services; i++) {
    struct nlmsghdr* header = BeginIpvs(IPVS_CMD_GET_DEST, NLM_F_DUMP);
    struct nlattr* nest = Attribute(header, IPVS_CMD_ATTR_SERVICE, NULL, 0);
    PutServiceKey(header, i);
    EndNest(header, nest);
    used = header->nlmsg_len;
    Send();
    AwaitEnd("dump real servers");
  }
}

static void AddRoutes(uint32_t count, int batch) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t address = htonl(kFirstVip + i);
    struct nlmsghdr* header = Begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
    struct rtmsg* route = Append(header, sizeof *route);
    route->rtm_family = AF_INET;
    route->rtm_dst_len = 32;
    route->rtm_table = RT_TABLE_LOCAL;
    route->rtm_protocol = 173;
    route->rtm_scope = RT_SCOPE_HOST;
    route->rtm_type = RTN_LOCAL;
    Attribute(header, RTA_DST, &address, sizeof address);
    AttributeU32(header, RTA_OIF, if_nametoindex("lo"));
    Finish(header, batch, "add route");
  }
  Send();
  if (batch) ExpectNoError();
}

static void AddAddresses(uint32_t count) {
  uint32_t device = if_nametoindex("kube-ipvs0");
  if (device == 0) Fail("kube-ipvs0", errno);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t address = htonl(kFirstVip + i);
    struct nlmsghdr* header = Begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    struct ifaddrmsg* message = Append(header, sizeof *message);
    message->ifa_family = AF_INET;
    message->ifa_prefixlen = 32;
    message->ifa_index = device;
    Attribute(header, IFA_LOCAL, &address, sizeof address);
    Attribute(header, IFA_ADDRESS, &address, sizeof address);
    Finish(header, 0, "add address");
  }
}

static struct nlmsghdr* BeginSet(uint8_t command, const char* name) {
  struct nlmsghdr* header = Begin((NFNL_SUBSYS_IPSET << 8) | command, 0);
  struct nfgenmsg* message = Append(header, sizeof *message);
  message->nfgen_family = AF_INET;
  uint8_t protocol = 6;
  Attribute(header, IPSET_ATTR_PROTOCOL, &protocol, sizeof protocol);
  Attribute(header, IPSET_ATTR_SETNAME, name, strlen(name) + 1);
  return header;
}

static void CreateSet(const char* name, const char* type, uint8_t revision) {
  uint8_t family = AF_INET;
  uint32_t most = htonl(65536);
  struct nlmsghdr* header = BeginSet(IPSET_CMD_CREATE, name);
  Attribute(header, IPSET_ATTR_TYPENAME, type, strlen(type) + 1);
  Attribute(header, IPSET_ATTR_REVISION, &revision, sizeof revision);
  Attribute(header, IPSET_ATTR_FAMILY, &family, sizeof family);
  struct nlattr* data = Attribute(header, NLA_F_NESTED | IPSET_ATTR_DATA, NULL, 0);
  if (strcmp(type, "bitmap:port") == 0) {
    AttributeU16(header, NLA_F_NET_BYTEORDER | IPSET_ATTR_PORT, 0);
    AttributeU16(header, NLA_F_NET_BYTEORDER | IPSET_ATTR_PORT_TO, 0xffff);
  } else {
    Attribute(header, NLA_F_NET_BYTEORDER | IPSET_ATTR_MAXELEM, &most, sizeof most);
  }
  EndNest(header, data);
  Finish(header, 0, "create set");
}

/// Parts of an entry, by kind of set.
enum { kHasAddress = 1, kHasPort = 2, kHasProtocol = 4 };

/// The buffer holds one message. An entry takes at most 48 bytes.
static void AddEntries(const char* name, uint32_t count, int has) {
  for (uint32_t i = 0; i < count;) {
    struct nlmsghdr* header = BeginSet(IPSET_CMD_ADD, name);
    uint32_t line = 0;
    Attribute(header, IPSET_ATTR_LINENO, &line, sizeof line);
    struct nlattr* all = Attribute(header, NLA_F_NESTED | IPSET_ATTR_ADT, NULL, 0);
    for (; i < count && header->nlmsg_len + 512 < kBatchBytes; i++) {
      memset((char*)header + header->nlmsg_len, 0, 64);
      struct nlattr* entry = Attribute(header, NLA_F_NESTED | IPSET_ATTR_DATA, NULL, 0);
      if (has & kHasAddress) {
        uint32_t address = htonl(kFirstVip + i);
        struct nlattr* ip = Attribute(header, NLA_F_NESTED | IPSET_ATTR_IP, NULL, 0);
        Attribute(header, NLA_F_NET_BYTEORDER | IPSET_ATTR_IPADDR_IPV4, &address, sizeof address);
        EndNest(header, ip);
      }
      if (has & kHasPort)
        AttributeU16(header, NLA_F_NET_BYTEORDER | IPSET_ATTR_PORT, htons((uint16_t)(has & kHasAddress ? 80 : 20000 + i)));
      if (has & kHasProtocol) {
        uint8_t protocol = IPPROTO_TCP;
        Attribute(header, IPSET_ATTR_PROTO, &protocol, sizeof protocol);
      }
      EndNest(header, entry);
    }
    EndNest(header, all);
    Finish(header, 0, "add entries");
  }
}

static void AddSets(uint32_t count, uint32_t ports) {
  CreateSet("FLOOR-IP-PORT", "hash:ip,port", 5);
  CreateSet("FLOOR-IP", "hash:ip", 4);
  CreateSet("FLOOR-PORT", "bitmap:port", 3);
  AddEntries("FLOOR-IP-PORT", count, kHasAddress | kHasPort | kHasProtocol);
  AddEntries("FLOOR-IP", count, kHasAddress);
  AddEntries("FLOOR-PORT", ports, kHasPort);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: floor add|add-batch|read|routes|routes-batch|addresses|sets N [M]\n");
    return 2;
  }
  const char* mode = argv[1];
  uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10);
  uint32_t reals = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
  int is_route = strncmp(mode, "routes", 6) == 0 || strcmp(mode, "addresses") == 0;
  int is_set = strcmp(mode, "sets") == 0;
  Open(is_route ? NETLINK_ROUTE : is_set ? NETLINK_NETFILTER : NETLINK_GENERIC);
  if (!is_route && !is_set) ResolveIpvs();

  struct timespec start;
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (strcmp(mode, "add") == 0) AddAll(count, reals, 0);
  if (strcmp(mode, "add-batch") == 0) AddAll(count, reals, 1);
  if (strcmp(mode, "read") == 0) ReadAll(count);
  if (strcmp(mode, "routes") == 0) AddRoutes(count, 0);
  if (strcmp(mode, "routes-batch") == 0) AddRoutes(count, 1);
  if (is_set) AddSets(count, reals);
  if (strcmp(mode, "addresses") == 0) AddAddresses(count);
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("{\"seconds\": %.6f, \"messages\": %ld}\n",
         (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9, messages);
  return 0;
}
