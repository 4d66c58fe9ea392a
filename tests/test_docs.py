"""Every command and every Python block in README.md and docs/ is run, in order, in an empty folder for each page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.spark.sessions import check_java
from tests import forked
from tests.servers import free_port

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[list[str]]:
    """Commands of a shell block; continued lines are joined, comments dropped."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def page_case(page: Path) -> Any:
    """Half a minute of Java for each of the commands on the page of Spark."""
    marks = pytest.mark.long if page.name == "spark.md" else pytest.mark.slow
    return pytest.param(page, marks=marks, id=page.name)


@pytest.mark.parametrize("page", [page_case(page) for page in PAGES])
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "--engine spark" in page.read_text():
        needs_spark()
        # Java that lives for seconds: to compile it well would take longer than to run it.
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    session: dict[str, object] = {}  # a page's Python blocks are one session
    port = str(free_port())
    with ExitStack() as servers:
        for kind, block in _FENCE.findall(page.read_text()):
            assert kind in ("sh", "python"), f"{page.name}: a {kind} block is run by nobody"
            if kind == "python":
                exec(compile(block, page.name, "exec"), session)
                continue
            for words in commands(block):
                run([word.replace(":8000", f":{port}") for word in words], page.name, servers, port)


def ask(words: list[str]) -> str:
    """What curl would print: the content of a URL, or of what -d is answered; one that is refused fails."""
    given = dict(zip(words[2::2], words[3::2]))
    assert set(given) <= {"-d"}, f"{shlex.join(words)}: more than is asked here"
    body = given["-d"].encode() if given else None
    with urllib.request.urlopen(words[1], body, timeout=60) as answer:
        return str(answer.read().decode())


def start(words: list[str], port: str, servers: ExitStack) -> None:
    """A server of a page, and a moment until it answers."""
    server = subprocess.Popen([sys.executable, "-m", "gamlp.cli.main", *words[1:], "--port", port])
    servers.callback(server.wait, 30)
    servers.callback(server.terminate)
    until = time.monotonic() + 60
    while True:
        try:
            ask(["curl", f"http://127.0.0.1:{port}/ready"])
            return
        except OSError:
            assert server.poll() is None and time.monotonic() < until, f"{shlex.join(words)} does not answer"
            time.sleep(0.1)


def environment(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """What stands before a command, in this process's environment without what a session of Spark set; the command."""
    given = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    while "=" in words[0]:
        name, _, value = words[0].partition("=")
        given[name], words = value, words[1:]
    return given, words


def run(words: list[str], page: str, servers: ExitStack, port: str) -> None:
    """One command of a page; what ends with & stays until the page ends."""
    if words[:2] == ["gamlp", "serve"]:
        assert words[-1] == "&", f"{page}: {shlex.join(words)} would never end"
        start(words[:-1], port, servers)
        return
    if words[0] == "curl":
        assert ask(words)
        return
    if words[-1] == "&":
        given, words = environment(words)
        assert words[0] == "spark-class", f"{page}: '{words[0]}' is started by nobody"
        server = subprocess.Popen(words[:-1], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=given)
        servers.callback(server.wait, 30)
        servers.callback(server.terminate)
        return
    done: forked.Done | subprocess.CompletedProcess[str]
    if words[0] == "make":  # what it would run; running it here would never end
        assert "$(MAKE)" not in (ROOT / "Makefile").read_text(), "a dry run runs lines with it"
        words = ["make", "--dry-run", "--directory", str(ROOT), *words[1:]]
        done = subprocess.run(words, capture_output=True, text=True)
    else:
        assert words[0] == "gamlp", f"{page}: '{words[0]}' is run by nobody"
        done = forked.gamlp(*words[1:])
    assert done.returncode == 0, f"{page}: {shlex.join(words)}\n{done.stderr[-2000:]}"


def needs_spark() -> None:
    """Skip where Java or pyspark is absent."""
    pytest.importorskip("pyspark")
    try:
        check_java()
    except GamlpError as error:
        pytest.skip(str(error))


def test_commands_of_other_kinds_would_be_noticed() -> None:
    assert commands("gamlp a \\\n  --b c  # why\n\n# nothing\nmake run") == [
        ["gamlp", "a", "--b", "c"],
        ["make", "run"],
    ]
