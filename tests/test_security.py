"""What SECURITY.md promises of the source: no file is unpickled, evaluated or handed to a shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gamlp

SOURCE = Path(gamlp.__file__).parent
MODULES = {"pickle", "pickletools", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "code", "pty"}
MODULES |= {"http.server", "socketserver", "xmlrpc.server", "torch.multiprocessing", "multiprocessing.managers"}
BARE = {"eval", "exec", "compile", "__import__", "execfile"}
DOTTED = {"os.system", "os.popen", "os.execv", "os.execvp", "torch.load", "torch.hub.load", "tempfile.mktemp"}
DOTTED |= {"yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "pd.read_pickle", "pandas.read_pickle", "np.fromfile"}
EVERYWHERE = {"0.0.0.0"}  # the address of all interfaces
# torch.distributed pickles what these exchange.
PICKLED = {"broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list"}
PICKLED |= {"send_object_list", "recv_object_list"}
# Who may do it all the same, and why it is safe.
ALLOWED = {
    ("graph/datasets/inert_pickle.py", "imports pickle"),  # stand-ins are built in place of all that a file names
    ("graph/datasets/inert_pickle.py", "imports pickletools"),  # reads operations, runs none
    ("recipe/settings_file.py", "calls yaml.load"),  # with a loader that is a SafeLoader: asserted below
    ("models/registry.py", "imports by a name"),  # of a model that a person named, see tests/io/test_trust.py
    ("cli/verbs.py", "imports by a name"),  # of a verb in gamlp's own table
    ("run/resources.py", "imports by a name"),  # of an engine in gamlp's own table
    ("run/__init__.py", "imports by a name"),  # of a file of this folder, in its own table
    ("spark/__init__.py", "imports by a name"),  # the same
    ("__init__.py", "imports by a name"),  # the same
    ("graph/datasets/download.py", "imports by a name"),  # PyG or OGB, which its callers write out
    ("graph/ingest/buckets.py", "calls np.fromfile"),  # int32 and float32 of files that it wrote itself
}


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an expression, as far as it is names."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def risks(tree: ast.AST) -> Iterator[str]:
    """What a reader of security looks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"imports {alias.name}" for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
            yield from (f"imports {name}" for name in names & MODULES)
            yield from (f"calls {name}" for name in names & DOTTED)
        elif isinstance(node, ast.Call):
            yield from risks_of_call(node)
        elif isinstance(node, ast.Constant) and node.value in EVERYWHERE:
            yield f"names {node.value}"


def risks_of_call(node: ast.Call) -> Iterator[str]:
    name = dotted(node.func)
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if name in BARE or name in DOTTED or name == "yaml.load":
        yield f"calls {name}"
    if name.rpartition(".")[2] in PICKLED:
        yield f"calls {name}"
    if name in ("np.load", "numpy.load", "np.lib.format.read_array", "open_memmap"):
        refused = given.get("allow_pickle")
        if not (isinstance(refused, ast.Constant) and refused.value is False):
            yield f"calls {name} without allow_pickle=False"
    if "shell" in given or name in ("subprocess.getoutput", "subprocess.getstatusoutput"):
        yield "calls a shell"
    if name.rpartition(".")[2] == "import_module" and not isinstance(node.args[0], ast.Constant):
        yield "imports by a name"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_of_the_source_takes_the_word_of_data_for_code(path: Path) -> None:
    here = path.relative_to(SOURCE).as_posix()
    found = {(here, risk) for risk in risks(ast.parse(path.read_text(encoding="utf-8")))}
    assert found - ALLOWED == set()
    assert {entry for entry in ALLOWED if entry[0] == here} == found, "what is not done any more needs no exception"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from torch import multiprocessing",
        "import joblib as fast",
        "eval(text)",
        "os.system('ls')",
        "from os import system",
        "torch.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=chosen)",
        "yaml.load(text, Loader)",
        "subprocess.run(command, shell=chosen)",
        "importlib.import_module(name)",
        "distributed.broadcast_object_list(found)",
        "torch.distributed.all_gather_object(found, mine)",
        "socket.create_server(('0.0.0.0', 0))",
    ],
)
def test_the_look_finds_what_it_looks_for(text: str) -> None:
    assert len(list(risks(ast.parse(text)))) == 1


def test_yaml_builds_plain_values_alone() -> None:
    import yaml

    from gamlp.recipe import settings_file

    assert issubclass(settings_file._Loader, yaml.SafeLoader)
    with pytest.raises(yaml.YAMLError):
        settings_file.load_yaml("!!python/object/apply:os.system ['true']")


def test_the_readme_leads_to_the_promises() -> None:
    root = Path(__file__).parent.parent
    assert "[SECURITY.md](SECURITY.md)" in (root / "README.md").read_text(encoding="utf-8")
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    assert all(part in text for part in ("## What is promised", "## What is not", "## How to report"))
