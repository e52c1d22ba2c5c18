"""Program: has a port until its standard input ends.

Arguments: PROTOCOL (tcp, udp or sctp) FAMILY (4 or 6) ADDRESS PORT, and `dual` for an IPv6 socket that takes IPv4 too. Prints `bound`, or the
name of the error and ends.
"""
import errno
import socket
import sys

protocol, family, address, port, *dual = sys.argv[1:]
kind = socket.SOCK_DGRAM if protocol == 'udp' else socket.SOCK_STREAM
number = socket.IPPROTO_SCTP if protocol == 'sctp' else 0
with socket.socket(socket.AF_INET6 if family == '6' else socket.AF_INET, kind, number) as taker:
    if family == '6':
        taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
    if protocol == 'tcp':
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taker.bind((address, int(port)))
        if protocol != 'udp':
            taker.listen()
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
        sys.exit(0)
    print('bound', flush=True)
    sys.stdin.read()
