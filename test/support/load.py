"""Program: repeats connections, exchanges over open connections, and queries. Counts them, and names the failures.

The first line on standard input is a JSON list of paths to the servers of probes.py: {"name", "kind": "connection" |
"exchange" | "query", "address", "port", "by": names of the servers that may answer, "sees": the client address that the server
must see, or null}. All paths run at the same time. Each later line is a request: `take` prints the counts since the last
`take` as a line of JSON, `take 5` first waits until each path has 5 attempts in them, `close NAME` ends an open connection by a
reset. It uses threads, because other ways start too slowly in the guest.
"""
import errno
import json
import socket
import struct
import sys
import threading
import time

PAUSE_S = 0.1
# Time without an answer after which an attempt fails. Long, because a guest may be slow.
SILENCE_S = {"connection": 30, "exchange": 30, "query": 10}
# linux/tcp.h struct tcp_info: tcpi_total_retrans.
RETRANSMITTED_AT = 100
# An attempt has ended.
tried = threading.Condition()


def retransmitted(sock):
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RETRANSMITTED_AT + 4)
    return struct.unpack_from("I", info, RETRANSMITTED_AT)[0]


class Path:
    """One repeated attempt, and its counts."""

    def __init__(self, what):
        self.what = what
        self.lock = threading.Lock()
        self.counts = self.zero()
        self.sock = None
        self.closed = False

    def zero(self):
        return {"tried": 0, "failed": 0, "retransmitted": 0, "slowestMs": 0, "by": [], "failures": []}

    def take(self):
        with self.lock:
            counts, self.counts = self.counts, self.zero()
            return counts

    def open(self):
        kind = socket.SOCK_DGRAM if self.what["kind"] == "query" else socket.SOCK_STREAM
        sock = socket.socket(socket.AF_INET6 if ":" in self.what["address"] else socket.AF_INET, kind)
        sock.settimeout(SILENCE_S[self.what["kind"]])
        try:
            sock.connect((self.what["address"], self.what["port"]))
        except BaseException:
            sock.close()
            raise
        return sock

    def ask(self, sock):
        sock.send(b"who\n")
        text = sock.recv(65536)
        if not text:
            return "closed by the server"
        answer = json.loads(text)
        by = answer["by"].split(" ")[0]
        with self.lock:
            if by not in self.counts["by"]:
                self.counts["by"].append(by)
        if by not in self.what["by"]:
            return f"answered by {by}"
        if self.what["sees"] not in (None, answer["sees"]):
            return f"the server saw {answer['sees']}"
        return None

    def once(self):
        """Makes one attempt. Returns the reason of its failure, or None, and the number of retransmitted segments."""
        if self.what["kind"] == "exchange":
            self.sock = self.sock or self.open()
            return self.ask(self.sock), 0
        with self.open() as sock:
            failure = self.ask(sock)
            return failure, 0 if self.what["kind"] == "query" else retransmitted(sock)

    def run(self):
        while True:
            started = time.monotonic()
            again = 0
            try:
                failure, again = self.once()
            except socket.timeout:
                failure = "silence"
            except OSError as error:
                failure = errno.errorcode.get(error.errno, str(error))
            ms = round((time.monotonic() - started) * 1000)
            if self.closed:
                return
            with self.lock:
                self.counts["tried"] += 1
                self.counts["retransmitted"] += 1 if again > 0 else 0
                self.counts["slowestMs"] = max(self.counts["slowestMs"], ms)
                if failure is not None:
                    self.counts["failed"] += 1
                    self.counts["failures"].append(failure)
            with tried:
                tried.notify()
            if failure is not None and self.sock is not None:
                self.sock.close()
                self.sock = None
            time.sleep(PAUSE_S)

    def close(self):
        self.closed = True
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


paths = {}


def start(items):
    for item in items:
        paths[item["name"]] = path = Path(item)
        threading.Thread(target=path.run, daemon=True).start()


for line in sys.stdin:
    if line.startswith("["):
        start(json.loads(line))
        continue
    words = line.split()
    if words[0] == "close":
        paths.pop(" ".join(words[1:])).close()
    elif len(words) == 2:
        with tried:
            tried.wait_for(lambda: all(path.counts["tried"] >= int(words[1]) for path in paths.values()))
    print(json.dumps({name: path.take() for name, path in paths.items()}), flush=True)
