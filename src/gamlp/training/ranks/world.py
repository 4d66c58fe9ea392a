"""World: which rank of how many this process is, and the few words that ranks exchange."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import TCPStore

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.training.ranks.exchange import Exchange, Learner

# A rank that waits longer for the others gives up; within it rank 0 may write a checkpoint and all read a batch.
PATIENCE = timedelta(minutes=10)
LOOPBACK = "127.0.0.1"
_INTERFACE = "GLOO_SOCKET_IFNAME"
_LISTENING = "GAMLP_LISTENING"  # the number of rank 0's socket, which its launcher opened


@dataclass(frozen=True)
class Meeting:
    """Where ranks meet: rank 0 answers at host:port, on the open socket `listening`; `own` is a rank's own address."""

    host: str = LOOPBACK
    port: int = 0
    own: str = LOOPBACK
    listening: int | None = None

    def store(self, patience: timedelta) -> TCPStore:
        """What ranks know of each other; a socket of torch's own making would listen on every interface."""
        if self.listening is None:
            return TCPStore(self.host, self.port, timeout=patience)
        return TCPStore(
            self.host, self.port, is_master=True, timeout=patience, wait_for_workers=False,
            master_listen_fd=os.dup(self.listening),
            use_libuv=True,  # the other kind waits for ever for the second byte of whoever sends one
        )  # fmt: skip

    def environment(self) -> dict[str, str]:
        """As `World.from_environment` reads it."""
        listening = {} if self.listening is None else {_LISTENING: str(self.listening)}
        return {"MASTER_ADDR": self.host, "MASTER_PORT": str(self.port), **listening}


@dataclass(frozen=True)
class World:
    """Rank of size. A world of one exchanges nothing: every method gives back what it was given.

    `local_rank` of `local_size` is the same among the ranks of this machine.

    >>> World().share(10), World(1, 3).share(10)
    ((0, 10), (3, 6))
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    meeting: Meeting = Meeting()

    @classmethod
    def from_environment(cls) -> World:
        """As a launcher says it: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT."""
        names = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_PORT": 0}
        rank, size, local, here, port = (int(os.environ.get(name, usual)) for name, usual in names.items())
        listening = os.environ.get(_LISTENING)
        host = os.environ.get("MASTER_ADDR", LOOPBACK)
        return cls(
            rank, size, local, here, Meeting(host, port, listening=None if listening is None else int(listening))
        )

    def environment(self) -> dict[str, str]:
        """What `from_environment` reads."""
        ranks = {"RANK": self.rank, "WORLD_SIZE": self.size}
        ranks |= {"LOCAL_RANK": self.local_rank, "LOCAL_WORLD_SIZE": self.local_size}
        return {name: str(value) for name, value in ranks.items()} | self.meeting.environment()

    @contextmanager
    def joined(self, device: torch.device, patience: timedelta = PATIENCE) -> Iterator[World]:
        """In a process group with all other ranks: gloo on the processor, nccl on GPUs."""
        if self.size == 1:
            yield self
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        with _speaking_from(self.meeting.own):
            distributed.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=self.meeting.store(patience), rank=self.rank, world_size=self.size, timeout=patience,
            )  # fmt: skip
        try:
            yield self
        finally:
            distributed.destroy_process_group()

    def share(self, count: int) -> tuple[int, int]:
        """Begin and end of the rows of this rank, out of `count`: equal shares that follow each other."""
        return self.rank * count // self.size, (self.rank + 1) * count // self.size

    def total(self, values: Tensor) -> Tensor:
        """Sum over ranks, in place."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def sums(self, numbers: list[float], device: torch.device) -> list[float]:
        """Each number summed over ranks."""
        if self.size == 1:
            return numbers
        found: list[float] = self.total(torch.tensor(numbers, dtype=torch.float64, device=device)).tolist()
        return found

    def gathered(self, values: Tensor) -> list[Tensor]:
        """Everybody's values, by rank."""
        if self.size == 1:
            return [values]
        found = [torch.empty_like(values) for _ in range(self.size)]
        distributed.all_gather(found, values)
        return found

    def all_rows(self, values: Tensor) -> Tensor:
        """Everybody's rows, those of rank 0 first; a rank may have none, and not know how wide they are."""
        if self.size == 1:
            return values
        shape = torch.tensor([*values.shape], device=values.device)
        shapes = torch.stack(self.gathered(shape))
        padded = values.new_zeros(shapes.max(0).values.tolist())
        if len(values):
            padded[: len(values)] = values
        return torch.cat([part[:count] for part, count in zip(self.gathered(padded), shapes[:, 0].tolist())])

    def follow(self, tensors: list[Tensor]) -> None:
        """Take over the values of rank 0, in place."""
        if self.size > 1:
            for values in tensors:
                distributed.broadcast(values, 0)

    def decided(self, choice: bool, device: torch.device) -> bool:
        """What rank 0 chose."""
        if self.size == 1:
            return choice
        chosen = torch.tensor([float(choice)], device=device)
        distributed.broadcast(chosen, 0)
        return bool(chosen.item())

    def agree(self, number: int, what: str, device: torch.device) -> None:
        """Stop where ranks do not see the same."""
        numbers = torch.stack(self.gathered(torch.tensor(number, device=device))).tolist()
        if len(set(numbers)) > 1:
            raise GamlpError(
                f"the training processes do not see the same {what} ({', '.join(map(str, numbers))})",
                hint="all must read the same shared storage",
            )

    def sum_gradients(self, parameters: list[nn.Parameter]) -> None:
        """∇ = Σ over ranks, in one all-reduce; a gradient that no rank has stays absent, so that it does not decay."""
        if self.size == 1 or not parameters:
            return
        wide = torch.float64 if any(value.dtype == torch.float64 for value in parameters) else torch.float32
        there = [value.grad is not None for value in parameters]
        parts = [torch.zeros_like(value) if value.grad is None else value.grad for value in parameters]
        flat = torch.cat([part.detach().to(wide).flatten() for part in parts])
        flat = torch.cat([flat, torch.tensor(there, dtype=wide, device=flat.device)])
        distributed.all_reduce(flat)
        *sums, anywhere = torch.split(flat, [value.numel() for value in parameters] + [len(parameters)])
        for value, total, some in zip(parameters, sums, (anywhere > 0).tolist()):
            value.grad = total.view_as(value).to(value.dtype) if some else None

    def exchange(self, learner: Learner) -> Exchange:
        """How gradients become steps: all ranks take every step together."""
        from gamlp.training.ranks.exchange import Together  # it stands above: its checkpoints are of a world

        return Together(learner)

    @property
    def tells(self) -> bool:
        """Whether this process writes a line for every epoch."""
        return self.rank == 0

    @property
    def keeps(self) -> bool:
        """Whether this process writes down what all have learned."""
        return self.rank == 0

    def check_solved(self) -> None:
        """Whether a model that is solved may be trained: one rank solves, the others hear of it."""

    def random_seed(self, *numbers: int) -> int:
        """Of this rank's dropout: other masks than on the other ranks."""
        high, low = np.random.SeedSequence((self.rank, *numbers)).generate_state(2)
        return int(high) << 31 | int(low) >> 1


ALONE = World()


@contextmanager
def _speaking_from(address: str) -> Iterator[None]:
    """Let gloo listen on the interface of this address alone; one that a person chose stays."""
    name = None if _INTERFACE in os.environ else _interface(address)
    if name is not None:
        os.environ[_INTERFACE] = name
    try:
        yield
    finally:
        if name is not None:
            del os.environ[_INTERFACE]


def _interface(address: str) -> str | None:
    """The network interface with this address, where the system tells."""
    asked = 0x8915  # SIOCGIFADDR, of Linux
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                found = fcntl.ioctl(probe, asked, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return None
