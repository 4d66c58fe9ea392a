"""The container file, read as a builder reads it: what it is made of is there, and what it starts is a verb."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import typer.main

ROOT = Path(__file__).parents[1]
FILE = ROOT / "containers" / "serve.Containerfile"
KNOWN = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER", "VOLUME",
    "WORKDIR",
}  # fmt: skip
TOOLS = ("build-essential", "cmake", "ninja", "gcc", "g++", "git", "curl", "pip install", "pip wheel")


@dataclass
class Stage:
    image: str
    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def of(self, word: str) -> list[str]:
        return [rest for found, rest in self.lines if found == word]


def instructions(text: str) -> list[tuple[str, str]]:
    """(word, rest) of every instruction: comments go, and lines that end with a backslash go on."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            assert word in KNOWN, f"'{word}' is no instruction"
            found.append((word, " ".join(rest.split())))
    return found


def stages(text: str) -> list[Stage]:
    """Stages in order; arguments before the first are put into its image."""
    given: dict[str, str] = {}
    found: list[Stage] = []
    for word, rest in instructions(text):
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            found.append(Stage(re.sub(r"\$\{(\w+)\}", lambda name: given[name[1]], image), name))
        elif found:
            found[-1].lines.append((word, rest))
        else:
            assert word == "ARG", f"{word} stands before FROM"
            name, _, value = rest.partition("=")
            given[name] = value
    return found


BUILD, SERVE = stages(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("stage", [BUILD, SERVE], ids=lambda stage: stage.name)
def test_images_are_pinned_to_a_patch_release(stage: Stage) -> None:
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", stage.image)
    assert stage.image == BUILD.image, "the environment that is copied names its Python by its place"


def test_what_is_copied_is_there() -> None:
    copied = []
    for rest in BUILD.of("COPY"):
        *sources, _ = shlex.split(rest)
        copied += sources
    assert copied and all((ROOT / name).exists() for name in copied)
    text = (ROOT / "pyproject.toml").read_text()
    needed = ["pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "src"]  # what the build backend reads
    assert set(needed) <= set(copied) and 'readme = "README.md"' in text and 'license-files = ["LICENSE"]' in text


def test_the_last_stage_has_the_environment_and_no_tools() -> None:
    assert SERVE.of("COPY") == ["--from=build /opt/gamlp /opt/gamlp"]
    ran = " ".join(SERVE.of("RUN"))
    assert not [tool for tool in TOOLS if tool in ran]
    assert any("venv /opt/gamlp" in rest for rest in BUILD.of("RUN"))


def test_torch_is_the_tested_one_for_processors_and_comes_first() -> None:
    installs = [rest for rest in BUILD.of("RUN") if "pip install" in rest]
    assert len(installs) == 2 and "/whl/cpu" in installs[0] and '"torch==${TORCH}"' in installs[0]
    (version,) = [rest.partition("=")[2] for rest in BUILD.of("ARG") if rest.startswith("TORCH=")]
    assert f"torch=={version}" in (ROOT / "requirements.lock").read_text().splitlines()
    assert "--constraint requirements.lock" in installs[1]


def test_extras_are_some_that_the_package_has() -> None:
    import tomllib

    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (extras,) = [rest.partition("=")[2] for rest in BUILD.of("ARG") if rest.startswith("EXTRAS=")]
    assert "serve" in extras.split(",") and set(extras.split(",")) <= set(known)


def test_nobody_is_root() -> None:
    (user,) = SERVE.of("USER")
    name, _, group = user.partition(":")
    assert int(name) >= 1000 and int(group) >= 1000
    assert any(f"--uid {name} " in rest for rest in SERVE.of("RUN")), "the number has a name"
    last = [word for word, _ in SERVE.lines]
    assert "RUN" not in last[last.index("USER") :]


def test_it_starts_a_verb_with_options_that_it_has() -> None:
    from gamlp.cli.main import app

    program, verb = json.loads(SERVE.of("ENTRYPOINT")[0])
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    arguments = json.loads(SERVE.of("CMD")[0])
    assert program == "gamlp"
    with command.make_context(verb, list(arguments)) as context:
        found = context.params
    assert (str(found["run"]), found["host"], found["port"]) == (SERVE.of("VOLUME")[0], "0.0.0.0", 8000)
    assert not found["no_api_key"], "others can reach it: it asks for a key"


def test_health_is_asked_where_the_server_listens() -> None:
    from gamlp.serve.http.gate import OPEN

    (check,) = SERVE.of("HEALTHCHECK")
    program = json.loads(check.partition("CMD ")[2])
    assert program[:2] == ["python", "-c"]
    (address,) = re.findall(r"'(http://[^']+)'", program[2])
    compile(program[2], "check", "exec")
    port = json.loads(SERVE.of("CMD")[0])[-1]
    assert SERVE.of("EXPOSE") == [port] and address == f"http://127.0.0.1:{port}/health" and "/health" in OPEN
    assert {part.partition("=")[0] for part in check.partition("CMD")[0].split()} == {
        "--interval", "--timeout", "--start-period", "--retries",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [("FORM python", "is no instruction"), ("RUN true\nFROM python", "stands before FROM")],
)
def test_the_reader_refuses_what_is_no_container_file(text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        stages(text)


def test_the_reader_joins_lines_and_leaves_comments_out() -> None:
    found = stages("ARG V=1.2\nFROM a:${V} AS b\n# no\nRUN one \\\n    # why\n    && two\n")
    assert [(one.image, one.name, one.lines) for one in found] == [("a:1.2", "b", [("RUN", "one && two")])]
