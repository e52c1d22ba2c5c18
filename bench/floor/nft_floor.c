// The lower bound for nf_tables: sends the same elements as the addon with a plain C loop, without code of Viaduct.
//
//   nft_floor N M             one map of N frontends with M ports each, filled in one transaction; then 2,000 transactions that
//                             delete one element and add it again
//   nft_floor change N MAP    2,000 transactions that replace the element of one frontend in this map of the agent's table
//
// Prints one JSON line: {"seconds": s, "changeMicroseconds": median}. Exits with 1 and a message if the kernel refuses an
// operation. Needs its own network namespace.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { kNestBytes = 60000, kKeyBytes = 12, kDataBytes = 8, kChanges = 2000, kFirstVip = 0x0a600001, kTcp = 6 };

static const char* table_name = "floor";
static const char* map_name = "endpoints";
static int socket_fd;
static char* buffer;
static size_t used;

static void Fail(const char* what, int error) {
  fprintf(stderr, "nft_floor: %s: %s\n", what, strerror(error));
  exit(1);
}

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t BeginMessage(uint16_t type, uint16_t flags, uint8_t family, uint16_t resource) {
  const size_t start = used;
  struct nlmsghdr* header = (struct nlmsghdr*)(buffer + used);
  memset(header, 0, NLMSG_HDRLEN);
  header->nlmsg_type = type;
  header->nlmsg_flags = NLM_F_REQUEST | flags;
  struct nfgenmsg* body = (struct nfgenmsg*)(buffer + used + NLMSG_HDRLEN);
  body->nfgen_family = family;
  body->version = NFNETLINK_V0;
  body->res_id = htons(resource);
  used += NLMSG_HDRLEN + sizeof *body;
  return start;
}

static void EndMessage(size_t start) {
  ((struct nlmsghdr*)(buffer + start))->nlmsg_len = (uint32_t)(used - start);
}

static size_t BeginNest(uint16_t type) {
  const size_t start = used;
  ((struct nlattr*)(buffer + used))->nla_type = type | NLA_F_NESTED;
  used += NLA_HDRLEN;
  return start;
}

static void EndNest(size_t start) {
  ((struct nlattr*)(buffer + start))->nla_len = (uint16_t)(used - start);
}

static void Put(uint16_t type, const void* data, size_t size) {
  struct nlattr* attribute = (struct nlattr*)(buffer + used);
  attribute->nla_type = type;
  attribute->nla_len = (uint16_t)(NLA_HDRLEN + size);
  memset(buffer + used + NLA_HDRLEN, 0, NLA_ALIGN(size));
  memcpy(buffer + used + NLA_HDRLEN, data, size);
  used += NLA_HDRLEN + NLA_ALIGN(size);
}

static void PutText(uint16_t type, const char* text) { Put(type, text, strlen(text) + 1); }

static void PutU32(uint16_t type, uint32_t value) {
  const uint32_t number = htonl(value);
  Put(type, &number, sizeof number);
}

static void BeginBatch(void) {
  used = 0;
  EndMessage(BeginMessage(NFNL_MSG_BATCH_BEGIN, 0, 0, NFNL_SUBSYS_NFTABLES));
}

static void SendBatch(void) {
  EndMessage(BeginMessage(NFNL_MSG_BATCH_END, 0, 0, NFNL_SUBSYS_NFTABLES));
  if (send(socket_fd, buffer, used, 0) < 0) Fail("send", errno);
  char answer[4096];
  if (recv(socket_fd, answer, sizeof answer, MSG_DONTWAIT) > 0)
    Fail("transaction", -((struct nlmsgerr*)(answer + NLMSG_HDRLEN))->error);
}

static void MakeMap(void) {
  BeginBatch();
  size_t message = BeginMessage(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE, NLM_F_CREATE, AF_INET, 0);
  PutText(NFTA_TABLE_NAME, table_name);
  EndMessage(message);
  message = BeginMessage(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSET, NLM_F_CREATE, AF_INET, 0);
  PutText(NFTA_SET_TABLE, table_name);
  PutText(NFTA_SET_NAME, map_name);
  PutU32(NFTA_SET_FLAGS, NFT_SET_MAP);
  PutU32(NFTA_SET_KEY_TYPE, 7U << 12 | 12U << 6 | 13U);
  PutU32(NFTA_SET_KEY_LEN, kKeyBytes);
  PutU32(NFTA_SET_DATA_TYPE, 7U << 6 | 13U);
  PutU32(NFTA_SET_DATA_LEN, kDataBytes);
  PutU32(NFTA_SET_ID, 1);
  EndMessage(message);
  SendBatch();
}

static void PutElement(uint32_t service, uint32_t index) {
  uint8_t key[kKeyBytes] = {0};
  uint8_t data[kDataBytes] = {0};
  const uint32_t vip = htonl(kFirstVip + service);
  const uint32_t endpoint = htonl(0x0af40000U + service * 8 + index);
  const uint16_t port = htons(80);
  const uint16_t frontend_port = htons((uint16_t)(80 + index));
  memcpy(key, &vip, 4);
  key[4] = kTcp;
  memcpy(key + 8, &frontend_port, 2);
  memcpy(data, &endpoint, 4);
  memcpy(data + 4, &port, 2);
  const size_t element = BeginNest(NFTA_LIST_ELEM);
  size_t nest = BeginNest(NFTA_SET_ELEM_KEY);
  Put(NFTA_DATA_VALUE, key, sizeof key);
  EndNest(nest);
  nest = BeginNest(NFTA_SET_ELEM_DATA);
  Put(NFTA_DATA_VALUE, data, sizeof data);
  EndNest(nest);
  EndNest(element);
}

static size_t BeginElements(uint16_t type, size_t* list) {
  const size_t message = BeginMessage((uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), NLM_F_CREATE, AF_INET, 0);
  PutText(NFTA_SET_ELEM_LIST_TABLE, table_name);
  PutText(NFTA_SET_ELEM_LIST_SET, map_name);
  *list = BeginNest(NFTA_SET_ELEM_LIST_ELEMENTS);
  return message;
}

static void Fill(uint32_t services, uint32_t endpoints) {
  BeginBatch();
  size_t list = 0;
  size_t message = BeginElements(NFT_MSG_NEWSETELEM, &list);
  for (uint32_t i = 0; i < services * endpoints; ++i) {
    if (used - list > kNestBytes) {
      EndNest(list);
      EndMessage(message);
      message = BeginElements(NFT_MSG_NEWSETELEM, &list);
    }
    PutElement(i / endpoints, i % endpoints);
  }
  EndNest(list);
  EndMessage(message);
  SendBatch();
}

static void PutChange(uint32_t service, uint16_t type) {
  size_t list = 0;
  const size_t message = BeginElements(type, &list);
  PutElement(service, 0);
  EndNest(list);
  EndMessage(message);
}

static double SendTimed(void) {
  const double start = Now();
  SendBatch();
  return (Now() - start) * 1e6;
}

static double ChangeOne(uint32_t service, uint16_t type) {
  BeginBatch();
  PutChange(service, type);
  return SendTimed();
}

static double ReplaceOne(uint32_t service) {
  BeginBatch();
  PutChange(service, NFT_MSG_DELSETELEM);
  PutChange(service, NFT_MSG_NEWSETELEM);
  return SendTimed();
}

static int Compare(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

static double Median(double* changes) {
  qsort(changes, kChanges, sizeof *changes, Compare);
  return changes[kChanges / 2];
}

static void OpenSocket(void) {
  const int bytes = 512 << 20;
  socket_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (socket_fd < 0) Fail("socket", errno);
  if (setsockopt(socket_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) Fail("send buffer", errno);
}

int main(int argc, char** argv) {
  static double changes[kChanges];
  const int is_change = argc == 4 && !strcmp(argv[1], "change");
  if (argc != 3 && !is_change) Fail("usage: nft_floor SERVICES ENDPOINTS | nft_floor change SERVICES MAP", EINVAL);
  const uint32_t services = (uint32_t)strtoul(argv[is_change ? 2 : 1], NULL, 10);
  const uint32_t endpoints = is_change ? 0 : (uint32_t)strtoul(argv[2], NULL, 10);
  buffer = malloc((size_t)services * endpoints * 64 + 65536);
  if (buffer == NULL) Fail("memory", ENOMEM);
  OpenSocket();
  if (is_change) {
    table_name = "kube-proxy";
    map_name = argv[3];
    for (uint32_t i = 0; i < kChanges; ++i) changes[i] = ReplaceOne(i % services);
    printf("{\"changeMicroseconds\": %f}\n", Median(changes));
    return 0;
  }
  MakeMap();
  const double start = Now();
  Fill(services, endpoints);
  const double seconds = Now() - start;
  for (uint32_t i = 0; i < kChanges; i += 2) {
    changes[i] = ChangeOne(i % services, NFT_MSG_DELSETELEM);
    changes[i + 1] = ChangeOne(i % services, NFT_MSG_NEWSETELEM);
  }
  printf("{\"seconds\": %f, \"changeMicroseconds\": %f}\n", seconds, Median(changes));
  return 0;
}
