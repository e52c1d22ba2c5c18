"""Sends batches of nf_tables to the kernel, as a recorded agent sent them: python3 send-batches.py, gzip in Base64 on standard input."""
import base64
import gzip
import socket
import struct
import sys

NETLINK_NETFILTER = 12
NFNL_MSG_BATCH_BEGIN = 16
NLMSG_ERROR = 2
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33


def batches(data):
    starts, offset = [], 0
    while offset < len(data):
        length, kind = struct.unpack_from("=IH", data, offset)
        if kind == NFNL_MSG_BATCH_BEGIN:
            starts.append(offset)
        offset += (length + 3) & ~3
    return [data[start:end] for start, end in zip(starts, starts[1:] + [len(data)])]


def errors(kernel):
    """The codes of the kernel's answers that are there already: it answers while it takes the messages."""
    while True:
        try:
            reply = kernel.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        _, kind, _, _, _, code = struct.unpack_from("=IHHIIi", reply)
        if kind == NLMSG_ERROR and code != 0:
            yield code


kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
kernel.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 22)
kernel.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
for batch in batches(gzip.decompress(base64.b64decode(sys.stdin.read()))):
    kernel.send(batch)
    print(sorted(set(errors(kernel))))
