"""Program: servers that report their own name and the address of their client, and probes that report the result of a request.

Each line on standard input is a request, and each line on standard output is an answer: JSON objects with the same `id`.
Requests run side by side. The program is in Python, because Node has no SCTP and no raw sockets, and starts slowly in the guest.
"""
import asyncio
import errno
import itertools
import json
import os
import socket
import struct
import sys
import traceback

KINDS = {
    "TCP": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "UDP": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "SCTP": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
}
# linux/in.h IP_RECVERR, linux/in6.h IPV6_RECVERR: without it SCTP does not report an ICMP refusal.
RECEIVE_ERRORS = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
TCP_SYN_ACK, TCP_RST = 0x12, 0x04

# Ports below ip_local_port_range. Conntrack remembers a datagram's ports for minutes: a second use of a random port could get the
# translation of the first.
OWN_PORTS = itertools.cycle(range(10240, 32768))

sessions = {}


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def new_socket(protocol, address):
    kind, number = KINDS[protocol]
    made = socket.socket(family_of(address), kind, number)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def identity(local, peer):
    return json.dumps({"by": f"{local[0]} {local[1]}", "sees": peer[0], "seesPort": peer[1]}).encode() + b"\n"


async def ready(sock, add, remove):
    future = asyncio.get_running_loop().create_future()
    add(sock.fileno(), lambda: future.done() or future.set_result(None))
    try:
        await future
    finally:
        remove(sock.fileno())


async def readable(sock):
    loop = asyncio.get_running_loop()
    await ready(sock, loop.add_reader, loop.remove_reader)


async def writable(sock):
    loop = asyncio.get_running_loop()
    await ready(sock, loop.add_writer, loop.remove_writer)


async def receive(sock):
    while True:
        try:
            return sock.recv(65536)
        except BlockingIOError:
            await readable(sock)


async def serve(request):
    for protocol, address, port in request["targets"]:
        listener = new_socket(protocol, address)
        listener.bind((address, port))
        if protocol == "UDP":
            # socket.h SO_RCVBUFFORCE: room for datagrams that many clients send at the same time.
            listener.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)
            asyncio.get_running_loop().add_reader(listener.fileno(), answer_datagrams, listener)
        else:
            listener.listen(512)
            asyncio.get_running_loop().add_reader(listener.fileno(), accept, listener)
    return {"kind": "done"}


def answer_datagrams(listener):
    while True:
        try:
            _, peer = listener.recvfrom(65536)
            listener.sendto(identity(listener.getsockname(), peer), peer)
        except BlockingIOError:
            return
        except OSError as error:
            # The reply cannot be sent. The client sees silence, and the test's output has the reason.
            print(f"no reply from {listener.getsockname()}: {error}", file=sys.stderr)


def accept(listener):
    connection, peer = listener.accept()
    connection.setblocking(False)
    task = asyncio.ensure_future(answer_lines(connection, peer))
    serving.add(task)
    task.add_done_callback(serving.discard)


serving = set()


async def answer_lines(connection, peer):
    """Answers every line with its own name until the client closes or resets the connection."""
    with connection:
        try:
            while await receive(connection):
                connection.send(identity(connection.getsockname(), peer))
        except OSError:
            pass


def chosen_source(address):
    """The source address that the kernel's route to `address` chooses."""
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as route:
        route.connect((address, 1))
        return route.getsockname()[0]


def source_of(request):
    """Returns the address and the port to which the client's socket is bound.

    SCTP is bound to one address. A socket that is bound to all of them offers each as a further path, and the server sends a
    HEARTBEAT to every path after a second or two. NAT translates the first path only, so the client answers the others by ABORT:
    a connection on a slow machine would be reset.
    """
    protocol, address = request["protocol"], request["address"]
    anywhere = "::" if family_of(address) == socket.AF_INET6 else "0.0.0.0"
    default = chosen_source(address) if protocol == "SCTP" else anywhere
    port = 0 if protocol == "TCP" else next(OWN_PORTS)
    return request.get("sourceAddress", default), request.get("sourcePort", port)


async def connect(request):
    protocol, address = request["protocol"], request["address"]
    sock = new_socket(protocol, address)
    try:
        if protocol == "SCTP":
            level, option = RECEIVE_ERRORS[sock.family]
            sock.setsockopt(level, option, 1)
        elif protocol == "TCP":
            # Close with a reset, so that no connection remains in the clients or in the node's table.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.bind(source_of(request))
        code = sock.connect_ex((address, request["port"]))
        if code == errno.EINPROGRESS:
            await writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def forget_late(sock):
    """Discards late answers to earlier requests."""
    while sock.type == socket.SOCK_DGRAM:
        try:
            sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            continue


async def ask(sock):
    forget_late(sock)
    try:
        sock.send(b"who\n")
    except PermissionError:
        # A rule of this namespace dropped the packet. If the rule also refused it, the socket still receives the refusal.
        pass
    text = await receive(sock)
    if not text:
        raise ConnectionResetError(errno.ECONNRESET, "closed")
    try:
        return {"kind": "answer", **json.loads(text)}
    except ValueError:
        # The answer comes from another program.
        return {"kind": "answer", "by": f"a stranger: {text[:60]!r}", "sees": "", "seesPort": 0}


async def probe(request):
    sock = await connect(request)
    with sock:
        return await ask(sock)


async def ask_session(request):
    """Asks over the socket of this name, which is opened by the first request and stays open."""
    name = request["session"]
    if name not in sessions:
        sessions[name] = await connect(request)
    return await ask(sessions[name])


async def close_session(request):
    """Closes the session's socket: a TCP connection by a reset, as in all clients here."""
    sessions.pop(request["session"]).close()
    return {"kind": "done"}


async def exchange(request):
    """Sends the text and returns everything that comes until the server closes."""
    sock = await connect(request)
    with sock:
        sock.send(request["text"].encode())
        text = b""
        while part := await receive(sock):
            text += part
        return {"kind": "answer", "text": text.decode()}


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


async def stray(request):
    """Sends a SYN-ACK that belongs to no connection. `refused`: it arrived, and the receiver sent a reset."""
    address, port = request["address"], request["port"]
    family = family_of(address)
    with socket.socket(family, socket.SOCK_DGRAM) as route:
        route.connect((address, port))
        source, own_port = route.getsockname()[:2]
        segment = struct.pack("!HHIIBBHHH", own_port, port, 1, 1, 5 << 4, TCP_SYN_ACK, 1024, 0, 0)
        ends = socket.inet_pton(family, source) + socket.inet_pton(family, address)
        sealed = checksum(ends + struct.pack("!HH", socket.IPPROTO_TCP, len(segment)) + segment)
        segment = segment[:16] + struct.pack("!H", sealed) + segment[18:]
        with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
            raw.setblocking(False)
            raw.sendto(segment, (address, 0))
            while True:
                packet = await receive(raw)
                answer = packet[(packet[0] & 0x0F) * 4 :] if family == socket.AF_INET else packet
                if answer[:4] == struct.pack("!HH", port, own_port) and answer[13] & TCP_RST:
                    return {"kind": "refused"}


OPERATIONS = {"serve": serve, "probe": probe, "ask": ask_session, "close": close_session, "exchange": exchange, "stray": stray}


async def run(request):
    try:
        result = await asyncio.wait_for(OPERATIONS[request["op"]](request), request["limitMs"] / 1000)
    except (TimeoutError, asyncio.TimeoutError):
        result = {"kind": "dropped"}
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            result = {"kind": "refused"}
        else:
            result = {"kind": "error", "code": errno.errorcode.get(error.errno, str(error))}
    except Exception:
        # A bug in this program: it ends, so that the caller sees the reason.
        traceback.print_exc()
        os._exit(70)
    print(json.dumps({"id": request["id"], **result}), flush=True)


async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()
    while line := await reader.readline():
        task = asyncio.ensure_future(run(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
