"""Exponents of a published complexity, read from its LaTeX: O(Kmf + Lmc) grows with m to the power of 1."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

Term = dict[str, float]  # symbol → power; infinite where the symbol stands in an exponent
_TOKENS = re.compile(r"\\[a-zA-Z]+|[a-zA-Z]|\d+|[{}^+()]")


def exponent(formula: str, symbols: Collection[str]) -> float:
    """The highest power of the symbols in any term: what decides in the end. Infinite: exponential; logarithms are 0.

    >>> exponent(r"\\mathcal{O}(Knf + K\\frac{\\sqrt{m\\lg{n}}}{\\varepsilon})", {"m"})
    0.5
    >>> exponent(r"\\mathcal{O}(k^{K}nf^2)", {"f"}), exponent(r"\\mathcal{O}(k^{K}nf^2)", {"K"})
    (2.0, inf)
    """
    if formula.strip() == "-":
        return 0.0
    tokens = _TOKENS.findall(formula.replace(r"\mathcal{O}", ""))
    found, rest = _sum(tokens[1:])  # after the O's opening bracket
    if rest != [")"]:
        raise ValueError(f"cannot read the formula {formula!r}")
    return max(sum(term.get(symbol, 0.0) for symbol in symbols) for term in found)


def _sum(tokens: list[str]) -> tuple[list[Term], list[str]]:
    """Terms up to a closing bracket, and the tokens from there."""
    terms: list[Term] = [{}]
    while tokens and tokens[0] not in "})":
        if tokens[0] == "+":
            terms, tokens = [*terms, {}], tokens[1:]
            continue
        factor, tokens = _factor(tokens)
        for symbol, power in factor.items():
            terms[-1][symbol] = terms[-1].get(symbol, 0.0) + power
    return terms, tokens


def _factor(tokens: list[str]) -> tuple[Term, list[str]]:
    head, tokens = tokens[0], tokens[1:]
    if head == r"\sqrt":
        (inner,), tokens = _braced(tokens)
        return {symbol: power / 2 for symbol, power in inner.items()}, tokens
    if head in (r"\lg", r"\log"):
        _, tokens = _braced(tokens)
        return {}, tokens
    if head == r"\frac":
        (above,), tokens = _braced(tokens)
        (below,), tokens = _braced(tokens)
        return {name: above.get(name, 0.0) - below.get(name, 0.0) for name in {*above, *below}}, tokens
    own: Term = {} if head.isdigit() else {head: 1.0}
    if tokens[:1] != ["^"]:
        return own, tokens
    if tokens[1] == "{":
        (power,), tokens = _braced(tokens[1:])
        # k^K: exponential in K; k itself is raised to what K happens to be.
        return {**own, **dict.fromkeys(power, math.inf)}, tokens
    return {symbol: float(tokens[1]) for symbol in own}, tokens[2:]


def _braced(tokens: list[str]) -> tuple[list[Term], list[str]]:
    terms, rest = _sum(tokens[1:])
    return terms, rest[1:]
