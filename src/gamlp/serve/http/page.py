"""The page of a served run, and the headers under which it is sent."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources


def page() -> tuple[bytes, dict[str, str]]:
    """Bytes of the page, and its headers: a policy that lets only its own script and style run.

    Whatever a class or an id is called, it is text: the policy also forbids making HTML of texts.

    >>> body, headers = page()
    >>> body[:15], "unsafe" in headers["Content-Security-Policy"]
    (b'<!doctype html>', False)
    """
    body, policy = _made()
    return body, {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",  # a newer gamlp on the same port shows its own page
    }


@cache
def _made() -> tuple[bytes, str]:
    # Read as text: a browser takes hashes of lines that end as those of Unix do, however the file was checked out.
    text = (resources.files("gamlp.serve.http") / "page.html").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'",
        f"script-src {_hashes(text, 'script')}",
        f"style-src {_hashes(text, 'style')}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return text.encode(), "; ".join(policy)


def _hashes(text: str, tag: str) -> str:
    """Of what stands inside the elements of this name."""
    inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in inside)
