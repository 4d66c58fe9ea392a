"""JSON with its own digest: content that changed is told, content that did not is not."""

from __future__ import annotations

import json

import pytest

from gamlp.io import sealed, unsealed

CONTENT = {"name": "papers", "classes": ["a", "b"], "share": 0.1, "none": None, "counts": {"2": 3}}


def test_what_was_sealed_comes_back() -> None:
    assert unsealed(json.dumps(sealed(CONTENT), indent=1).encode()) == CONTENT
    assert unsealed(json.dumps(CONTENT).encode()) == CONTENT  # of an older release


def test_no_flipped_bit_changes_what_is_read() -> None:
    data = json.dumps(sealed(CONTENT), indent=1).encode()
    refused = 0
    for at in range(len(data) * 8):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        try:
            found = unsealed(bytes(changed))
        except ValueError:
            refused += 1
        else:  # a space that became a tab, or the digest's own key, which no manifest knows
            assert found == CONTENT or set(found) - set(CONTENT)
    assert refused > 6 * len(data)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"3", b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_object_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        unsealed(data)
