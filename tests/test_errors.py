"""What is shown of names that a stranger's table holds."""

from __future__ import annotations

import pytest

from gamlp.errors import GamlpError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Ünïcode 中文 'x' \\n", "plain, Ünïcode 中文 'x' \\n"),
        ("\x1b[2J\x1b]0;owned\x07", "\\x1b[2J\\x1b]0;owned\\x07"),
        ("a\nb\rc\td\x00\x7f\x9b", "a\\nb\\rc\\td\\x00\\x7f\\x9b"),
        ("\u202eabc\u2066\u2028", "\\u202eabc\\u2066\\u2028"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # a joiner that Persian is written with
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert printable(text) == shown
    assert (
        str(GamlpError(text, file=f"f{text}", column=text, hint=text)) == f"f{shown}, column {shown}: {shown}; {shown}."
    )


def test_a_word_of_any_length_is_shown_in_part() -> None:
    told = str(GamlpError(f"'{'x' * 100_000}' is no size", file="a/" * 200 + "nodes.csv"))
    assert len(told) < 1000 and "…" in told and told.startswith("a/" * 200 + "nodes.csv: 'xxx") and "is no size" in told
