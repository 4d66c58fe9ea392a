"""The recipe's optimiser is torch's own, to the bit, and does not import torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gamlp.recipe import TrainingSettings
from gamlp.training.optimizer import make_optimizer

CPU = torch.device("cpu")
WITHOUT_COMPILER = """
import sys
import torch
from gamlp.recipe import TrainingSettings
from gamlp.training.optimizer import make_optimizer

weights = torch.nn.Parameter(torch.ones(3))
groups = [{"params": [weights], "weight_decay": 0.1, "rate": 1.0}]
optimizer = make_optimizer(groups, TrainingSettings(), torch.device("cpu"))
for _ in range(2):
    weights.square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
assert "torch._dynamo" not in sys.modules, "torch's compiler was imported"
"""


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_steps_and_states_are_those_of_torchs_own_optimiser(name: str) -> None:
    settings = TrainingSettings(optimizer=name, learning_rate=0.03)  # type: ignore[arg-type]
    start = torch.randn(7, generator=torch.Generator().manual_seed(0))
    own, wanted = (torch.nn.Parameter(start.clone()) for _ in range(2))
    groups = [{"params": [own], "weight_decay": 0.1, "rate": 1.0}]
    ours = make_optimizer(groups, settings, CPU)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    torchs = kind([{"params": [wanted], "weight_decay": 0.1, "rate": 1.0}], lr=0.03, fused=True)
    for number in range(5):
        for weights, optimizer in ((own, ours), (wanted, torchs)):
            optimizer.zero_grad()
            (weights.square().sum() * (number + 1)).backward()
            optimizer.step()
        if number == 2:
            again = make_optimizer([{"params": [own], "weight_decay": 0.1, "rate": 1.0}], settings, CPU)
            again.load_state_dict(ours.state_dict())
            ours = again
        assert torch.equal(own, wanted) and own.grad is not None
    found, state = ours.state_dict(), torchs.state_dict()
    assert found["param_groups"] == state["param_groups"]
    assert all(torch.equal(found["state"][0][key], state["state"][0][key]) for key in state["state"][0])


def test_training_does_not_import_torchs_compiler() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_COMPILER], check=True, timeout=120)
