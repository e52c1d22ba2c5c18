"""Program: a service manager with a descriptor store, as systemd has one: sd_notify(3), sd_listen_fds(3).

Arguments: SOCKET COMMAND... It starts the command, with SOCKET as its NOTIFY_SOCKET and the stored descriptors from 3 on. Lines of its
standard input: `kill`: it kills the command. `start`: it starts the command again, with the words after it as further arguments. It
prints `started PID`, `ended`, and each notification: `READY=1`, `FDSTORE=1 NAME`, `FDSTOREREMOVE=1 NAME`. The command's output goes to
standard error.
"""
import os
import signal
import socket
import sys
import threading

path, *command = sys.argv[1:]
inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
inbox.bind(path)
stored = {}


def notified():
    while True:
        text, descriptors, _, _ = socket.recv_fds(inbox, 4096, 1)
        lines = dict(line.split('=', 1) for line in text.decode().splitlines())
        name = lines.get('FDNAME')
        if 'FDSTORE' in lines:
            stored[name] = descriptors[0]
        elif 'FDSTOREREMOVE' in lines:
            os.close(stored.pop(name))
        print(text.decode().splitlines()[0] + (f' {name}' if name else ''), flush=True)


def run(arguments):
    """Starts the command in a process of its own, and returns its id."""
    passed = dict(stored)
    pid = os.fork()
    if pid:
        return pid
    # Above the numbers that they get.
    copies = [os.dup(descriptor) for descriptor in passed.values()]
    copies = [os.dup2(copy, 1000 + number) for number, copy in enumerate(copies)]
    for number, copy in enumerate(copies):
        os.dup2(copy, 3 + number, inheritable=True)
    os.closerange(3 + len(copies), 2000)
    os.dup2(2, 1)
    names = {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': str(len(passed)), 'LISTEN_FDNAMES': ':'.join(passed)}
    os.execvpe('setpriv', ['setpriv', '--pdeathsig', 'KILL', *command, *arguments], {**os.environ, 'NOTIFY_SOCKET': path, **(names if passed else {})})


threading.Thread(target=notified, daemon=True).start()
pid = run([])
print(f'started {pid}', flush=True)
for line in sys.stdin:
    order, *arguments = line.split()
    if order == 'kill':
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print('ended', flush=True)
    else:
        pid = run(arguments)
        print(f'started {pid}', flush=True)
os.kill(pid, signal.SIGKILL)
