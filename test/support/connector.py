"""Program: connects by TCP to ADDRESS PORT, one connection after the other, and is the server of each at OWN_PORT.

Arguments: ADDRESS PORT OWN_PORT. Prints `ready` after the first connection. When its standard input ends, it prints a line of JSON:
the number of attempts, and the reasons of those that failed. An attempt that sent a segment again has failed: a packet was lost.
"""
import errno
import json
import select
import socket
import struct
import sys

# linux/tcp.h struct tcp_info: tcpi_total_retrans.
RETRANSMITTED_AT = 100
SILENCE_S = 30


def attempt(listener, target):
    """Returns the reason of a failure, or None."""
    with socket.socket() as client:
        client.settimeout(SILENCE_S)
        # A reset at the end: ports are free again at once.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            client.connect(target)
        except socket.timeout:
            return "silence"
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RETRANSMITTED_AT + 4)
        listener.accept()[0].close()
        return "sent again" if struct.unpack_from("I", info, RETRANSMITTED_AT)[0] > 0 else None


address, port, own_port = sys.argv[1:]
target = (address, int(port))
counts = {"tried": 0, "failures": []}
with socket.create_server(("", int(own_port))) as listener:
    listener.settimeout(SILENCE_S)
    while not select.select([sys.stdin], [], [], 0)[0]:
        failure = attempt(listener, target)
        counts["tried"] += 1
        if failure is not None:
            counts["failures"].append(failure)
        if counts["tried"] == 1:
            print("ready", flush=True)
print(json.dumps(counts), flush=True)
