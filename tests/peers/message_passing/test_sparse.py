"""Softmax, attention and dropout over the entries of a sparse matrix: values and gradients of plain dense algebra."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

pytest.importorskip("torch_geometric")

from gamlp.peers.message_passing.dropping import dropped
from gamlp.peers.message_passing.heads import attention, softmax
from gamlp.peers.message_passing.sparse import Matrix, Pattern, from_triples

ROWS, COLUMNS, HEADS = 7, 5, 3
EMPTY = 4  # a row without entries


def made(seed: int = 0) -> tuple[Pattern, Tensor]:
    """A pattern, and where it has entries as a dense matrix."""
    draw = torch.Generator().manual_seed(seed)
    there = torch.rand(ROWS, COLUMNS, generator=draw) < 0.5
    there[EMPTY] = False
    rows, columns = there.nonzero().T
    return from_triples(rows, columns, torch.ones(len(rows)), (ROWS, COLUMNS)).pattern, there


def dense_softmax(raw: Tensor, there: Tensor) -> Tensor:
    """`[rows, columns, heads]` → the entries, `[entries, heads]`."""
    hidden = torch.where(there[..., None], raw, -torch.inf)
    return torch.softmax(hidden[there.any(1)], 1)[there[there.any(1)]]


def random(*sizes: int, seed: int = 1, scale: float = 1.0) -> Tensor:
    return (scale * torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))).requires_grad_()


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_softmax_of_the_entries_of_every_row(scale: float) -> None:
    pattern, there = made()
    values, upon = random(pattern.entries, HEADS, scale=scale), random(pattern.entries, HEADS, seed=2).detach()
    found = softmax(pattern, values)
    (found * upon).sum().backward()
    own = values.grad
    values.grad = None
    raw = torch.zeros(ROWS, COLUMNS, HEADS).index_put((there,), values)
    expected = dense_softmax(raw.reshape(ROWS, COLUMNS, HEADS), there)
    (expected * upon).sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(own, values.grad, atol=1e-6, rtol=1e-4)


def test_attention_of_own_and_near() -> None:
    pattern, there = made()
    near, own, upon = (
        random(COLUMNS, HEADS),
        random(ROWS, HEADS, seed=3),
        random(pattern.entries, HEADS, seed=2).detach(),
    )
    found = attention(pattern, near, own, 0.2)
    (found * upon).sum().backward()
    given = near.grad, own.grad
    near.grad = own.grad = None
    expected = dense_softmax(leaky_relu(own[:, None] + near[None], 0.2), there)
    (expected * upon).sum().backward()
    torch.testing.assert_close(found, expected)
    for one, other in zip(given, (near.grad, own.grad)):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("width", [3, 32, 40, 44])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_product_is_that_of_dense_matrices_whichever_loop_takes_it(
    width: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    pattern, there = made()
    values, dense, upon = random(pattern.entries).detach(), random(COLUMNS, width), random(ROWS, width, seed=2).detach()
    matrix = torch.zeros(ROWS, COLUMNS).index_put((there,), values)
    found = Matrix(pattern, values).times(dense)
    (found * upon).sum().backward()
    torch.testing.assert_close(found, matrix @ dense)
    torch.testing.assert_close(dense.grad, matrix.T @ upon)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.6])
def test_dropout_is_a_choice_by_16_bits_an_entry(share: float) -> None:
    """Written out: an entry stays where its 16 bits are at least the share of all that there are, and is scaled up."""
    values, upon = random(31, 17), random(31, 17, seed=2).detach()
    torch.manual_seed(5)
    found = dropped(values, share)
    torch.manual_seed(5)
    bits = torch.empty(-(-31 * 17 // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[: 31 * 17]
    cut = round(share * 65536)
    kept = (bits.int() + 32768 >= cut).view(31, 17)
    scale = 65536 / (65536 - cut)
    torch.testing.assert_close(found, torch.where(kept, values, 0.0) * scale)
    (found * upon).sum().backward()
    torch.testing.assert_close(values.grad, torch.where(kept, upon, 0.0) * scale)
    assert float(kept.float().mean()) == pytest.approx(1 - share, abs=0.08)
    assert dropped(values, share, training=False) is values and dropped(values, 0.0) is values
