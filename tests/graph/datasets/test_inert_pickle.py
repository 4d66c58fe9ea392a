"""Pickles of Planetoid that were tampered with: one sentence, whatever they say; nothing that they name is built."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.datasets.inert_pickle import InertPickle

READ = {"tx": InertPickle.matrix, "ty": InertPickle.array, "graph": InertPickle.lists}


@pytest.fixture
def raw(data_dir: Path) -> Path:
    return data_dir / "Planetoid" / "Cora" / "raw"


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
KIND = b"cnumpy\ndtype\n(U\x02%sK\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(values: Any, kind: bytes = b"i4", shape: bytes | None = None) -> bytes:
    data = np.asarray(values, f"<{kind.decode()}").tobytes()
    size = b"(" + number(len(values)) + b"t" if shape is None else shape
    return ARRAY + b"(K\x01" + size + KIND.replace(b"%s", kind) + b"\x89T" + struct.pack("<i", len(data)) + data + b"tb"


def matrix(data: bytes, indices: bytes, offsets: bytes, rows: int, columns: int) -> bytes:
    shape = b"(" + number(rows) + number(columns) + b"t"
    parts = {b"data": data, b"indices": indices, b"indptr": offsets, b"_shape": shape}
    state = b"".join(b"U" + bytes([len(name)]) + name + value for name, value in parts.items())
    return b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + state + b"ub."


GOOD = (array([1.0, 2.0], b"f4"), array([0, 2]), array([0, 1, 2]))


def test_a_small_matrix_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(matrix(*GOOD, 2, 3))
    assert InertPickle(tmp_path / "x").matrix().toarray().tolist() == [[1, 0, 0], [0, 0, 2]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (matrix(GOOD[0], array([0, 3]), GOOD[2], 2, 3), "a column 3 of 3"),
        (matrix(GOOD[0], array([0, -1]), GOOD[2], 2, 3), "a column -1 of 3"),
        (matrix(GOOD[0], array([0, 2**30]), GOOD[2], 2, 3), "a column 1073741824 of 3"),
        (matrix(GOOD[0], GOOD[1], array([0, 2, 1]), 2, 3), "do not divide it into 2 rows"),
        (matrix(GOOD[0], GOOD[1], array([1, 1, 2]), 2, 3), "do not divide it into 2 rows"),
        (matrix(GOOD[0], GOOD[1], array([0, 1, 2**30]), 2, 3), "offsets end at 1073741824"),
        (matrix(GOOD[0], GOOD[1], array([0, 1]), 2, 3), "do not divide it into 2 rows"),
        (matrix(array([1.0], b"f4"), *GOOD[1:], 2, 3), "2 indices and 1 values"),
        (matrix(*GOOD, 2**30, 2**30), "a matrix of 1073741824 x 1073741824 cells"),
        (matrix(*GOOD, -2, 3), "a matrix of -2 x 3 cells"),
        (matrix(GOOD[0], array([0.0, 2.0], b"f4"), GOOD[2], 2, 3), "not whole numbers"),
        (matrix(array([1, 2], b"i4", b"(K\x09t"), *GOOD[1:], 2, 3), "8 bytes where 9 numbers"),
        (matrix(array([1, 2], b"i4", b"(K\x02K\x01K\x01t"), *GOOD[1:], 2, 3), "one or two dimensions"),
        (matrix(GOOD[0].replace(b"f4", b"O8"), *GOOD[1:], 2, 3), "an array of numbers"),
        (matrix(b"N", *GOOD[1:], 2, 3), "an array is expected"),
        (b"\x80\x02}.", "a sparse matrix is expected"),
        (b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n.", "a sparse matrix is expected"),
        (b"cos\nsystem\n(S'true'\ntR.", "names os.system, which is no array"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "names builtins.eval, which is no array"),
        (b"cnumpy\nload\n(S'x'\ntR.", "names numpy.load, which is no array"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.data\x93.", "names numpy.ndarray.data, which is no array"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "remembers something as number"),  # room for two thousand million others
        (b"\x80\x02\x82\x01.", "unregistered extension"),
        (b"\x80\x02X\xff\xff\xff\x7fx.", "not a Planetoid file"),
        (b"", "not a Planetoid file"),
        (b"(" * 100_000 + b".", "not a Planetoid file"),
        (b"\x80\x02cnumpy\ndtype\n}U\x01xK\x01sb.", "a sparse matrix is expected|not a Planetoid file"),
    ],
)
def test_what_a_hostile_file_says_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "ind.x").write_bytes(content)
    with pytest.raises(GamlpError, match=f"ind.x: .*({said})"):
        InertPickle(tmp_path / "ind.x").matrix()


def test_what_one_file_sets_is_not_seen_by_the_next(tmp_path: Path) -> None:
    """A pickle may set attributes of what it names: here `from_one` of the class that stands for lists."""
    (tmp_path / "one").write_bytes(
        b"\x80\x02ccollections\ndefaultdict\n(NU\x08from_oneK\x01\x85}U\x08from_oneK\x01s\x86b."
    )
    with suppress(GamlpError):
        InertPickle(tmp_path / "one")
    (tmp_path / "two").write_bytes(b"\x80\x02ccollections\ndefaultdict\n)R.")
    assert not hasattr(InertPickle(tmp_path / "two").lists(), "from_one") and not hasattr(dict, "from_one")


@pytest.mark.parametrize("part", READ)
def test_changed_bytes_are_refused_or_harmless(part: str, raw: Path, tmp_path: Path) -> None:
    """Whatever byte is changed: what comes out is a sentence, or numbers that lie inside their bounds."""
    random = np.random.default_rng(0)
    whole = (raw / f"ind.cora.{part}").read_bytes()
    place, refused = tmp_path / "changed", 0
    for round in range(60):
        data = bytearray(whole)
        for _ in range(1 + round % 4):
            # Most of a file is numbers: half of the changes go to its beginning, where it says what they are.
            at = random.integers(len(data)) if round % 2 else random.integers(600)
            data[at] = random.integers(256)
        place.write_bytes(data[: random.integers(len(data))] if round % 10 == 9 else data)
        try:
            found = READ[part](InertPickle(place))
        except GamlpError:
            refused += 1
            continue
        if part == "tx":
            assert found.toarray().shape == found.shape
    assert refused > 5


def test_real_files_are_read_as_pickle_reads_them(raw: Path) -> None:
    """The stand-ins against the real thing, on files that are known to be good."""
    for part in ("tx", "ty", "graph"):
        with (raw / f"ind.cora.{part}").open("rb") as file:
            theirs = pickle.load(file, encoding="latin1")
        ours = READ[part](InertPickle(raw / f"ind.cora.{part}"))
        if part == "graph":
            assert ours == dict(theirs)
        else:
            left, right = (one.toarray() if part == "tx" else one for one in (ours, theirs))
            assert np.array_equal(left, right)
