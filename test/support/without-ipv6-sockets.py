# Runs a command whose IPv6 sockets are refused, as by systemd's RestrictAddressFamilies= (a filter of seccomp on x86-64).
import ctypes
import os
import platform
import struct
import sys

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h, asm/unistd_64.h
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 16
SYS_SOCKET, AF_INET6, EAFNOSUPPORT = 41, 10, 97


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def instruction(code, if_true, if_false, value):
    return struct.pack("HBBI", code, if_true, if_false, value)


if platform.machine() != "x86_64":
    sys.exit("this filter is for x86-64")
instructions = [
    instruction(LOAD_WORD, 0, 0, NUMBER_OFFSET),
    instruction(JUMP_IF_EQUAL, 0, 3, SYS_SOCKET),
    instruction(LOAD_WORD, 0, 0, FIRST_ARGUMENT_OFFSET),
    instruction(JUMP_IF_EQUAL, 0, 1, AF_INET6),
    instruction(RETURN, 0, 0, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
    instruction(RETURN, 0, 0, SECCOMP_RET_ALLOW),
]
text = ctypes.create_string_buffer(b"".join(instructions))
program = Program(len(instructions), ctypes.cast(text, ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
