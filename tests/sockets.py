"""Who listens where: sockets of a process and of all it started, as the kernel has them."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from pathlib import Path

import psutil

Address = tuple[str, int]
_LISTEN, _UNCONNECTED = "0A", "07"  # states of a TCP socket that listens, and of a UDP socket that takes from anyone


def listening(pid: int) -> set[Address]:
    """Addresses on which the process, or one that it started, takes what others send."""
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return set()
    inodes = set().union(*(_inodes(one.pid) for one in family))
    found = set()
    for table, state in (("tcp", _LISTEN), ("tcp6", _LISTEN), ("udp", _UNCONNECTED), ("udp6", _UNCONNECTED)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == state and cells[9] in inodes:
                found.add(_address(cells[1]))
    return found


def beyond_loopback(found: set[Address]) -> set[Address]:
    """Those that another machine could reach."""
    return {address for address in found if not _is_loopback(address[0])}


def watch(pid: int, ended: Callable[[], bool], seconds: float) -> set[Address]:
    """All that was listened on until the process ended."""
    found: set[Address] = set()
    ends = time.monotonic() + seconds
    while not ended():
        assert time.monotonic() < ends, f"did not end within {seconds:g} s"
        found |= listening(pid)
        time.sleep(0.02)
    return found


def _inodes(pid: int) -> set[str]:
    found = set()
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink())
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:  # gone meanwhile
        pass
    return found


def _address(text: str) -> Address:
    """`0100007F:1F90` of /proc/net: words of four bytes, each in the machine's own order."""
    host, port = text.split(":")
    words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8)]
    return str(ipaddress.ip_address(b"".join(words))), int(port, 16)


def _is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    inside = getattr(address, "ipv4_mapped", None)
    return (inside or address).is_loopback
