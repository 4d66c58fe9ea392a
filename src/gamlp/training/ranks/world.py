"""World: which rank of how many this process is, and the few words that ranks exchange."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from gamlp.errors import GamlpError

# A rank that waits longer for the others gives up; within it rank 0 may write a checkpoint and all read a batch.
PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True)
class World:
    """Rank of size. A world of one exchanges nothing: every method gives back what it was given.

    >>> World().share(10), World(1, 3).share(10)
    ((0, 10), (3, 6))
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @classmethod
    def from_environment(cls) -> World:
        """As torchrun and TorchDistributor say it: RANK, WORLD_SIZE, LOCAL_RANK."""
        found = [
            int(os.environ.get(name, usual)) for name, usual in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0))
        ]
        return cls(*found)

    @contextmanager
    def joined(self, device: torch.device, patience: timedelta = PATIENCE) -> Iterator[World]:
        """In a process group with all other ranks: gloo on the processor, nccl on GPUs."""
        if self.size == 1:
            yield self
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        if os.environ.get("MASTER_ADDR") in ("127.0.0.1", "localhost") and "lo" in dict(socket.if_nameindex()).values():
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are here: listen to nobody else
        store, *_ = next(rendezvous("env://", self.rank, self.size, timeout=patience))
        # torchrun keeps its store when it restarts workers: without a name of their own, new ones would find the
        # addresses of the dead there, and wait for them.
        store = PrefixStore(f"gamlp/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=store, rank=self.rank, world_size=self.size, timeout=patience,
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

    def follow(self, tensors: list[Tensor]) -> None:
        """Take over the values of rank 0, in place."""
        if self.size > 1:
            for values in tensors:
                distributed.broadcast(values, 0)

    def decided(self, choice: bool, device: torch.device) -> bool:
        """What rank 0 chose."""
        if self.size == 1:
            return choice
        said = torch.tensor([float(choice)], device=device)
        distributed.broadcast(said, 0)
        return bool(said.item())

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

    def neighbours(self, device: torch.device) -> int:
        """How many ranks share this machine."""
        name = int.from_bytes(hashlib.sha256(platform.node().encode()).digest()[:7], "big")
        names = torch.stack(self.gathered(torch.tensor(name, device=device))).tolist()
        return names.count(name)

    def random_seed(self, *numbers: int) -> int:
        """Of this rank's dropout: other masks than on the other ranks."""
        high, low = np.random.SeedSequence((self.rank, *numbers)).generate_state(2)
        return int(high) << 31 | int(low) >> 1


ALONE = World()
