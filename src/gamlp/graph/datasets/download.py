"""Raw files that are not here, fetched by PyG or OGB: bounded, silent, never asking."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
import shutil
import socket
import threading
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError, MissingExtra
from gamlp.graph.datasets.catalogue import Dataset, Download
from gamlp.io import format_size, locked, work_folder

MOST_BYTES = 4 << 30


def unpack(archive: Path, names: Iterable[str], folder: Path) -> None:
    """Put the files `names` of a zip, in whatever folder they lie there, into `folder`.

    A member's own path is never used to write, so it cannot lead anywhere else; a member that grows beyond
    the size it states, or states too much, is refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(archive) as stored:
            members = {Path(member.filename).name: member for member in stored.infolist() if not member.is_dir()}
            for name in names:
                if name not in members:
                    raise GamlpError(f"no {name} inside", file=archive, hint="fetch the archive again")
                _copy(stored, members[name], folder / name, archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise GamlpError(f"not a readable zip ({error})", file=archive, hint="fetch it again") from error


def _copy(stored: zipfile.ZipFile, member: zipfile.ZipInfo, out: Path, archive: Path) -> None:
    if member.file_size > MOST_BYTES:
        size = format_size(member.file_size)
        raise GamlpError(f"{member.filename} would unpack to {size}", file=archive, hint="unpack it yourself")
    # zipfile stops at the stated size and checks the CRC, so a member cannot bring more than it states.
    with stored.open(member) as source, out.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)


_ANSWER = 5.0  # seconds to find out whether there is a network
_STALL = 60.0  # seconds without a byte before a download is given up


def fetch(dataset: Dataset, root: Path) -> None:
    """Put the raw files of a dataset below `root`, whole or not at all."""
    plan = dataset.download
    if plan is None or os.environ.get("GAMLP_OFFLINE"):
        raise GamlpError("there is no download of it")
    # Asked first: without a network a missing library is not the user's problem.
    if not _answers("https://github.com" if plan.library == "torch_geometric" else "http://snap.stanford.edu"):
        raise GamlpError("the network does not answer")
    # One at a time: what another one of the same dataset brings meanwhile is not removed for this one's.
    with locked(root / dataset.name), work_folder(root / f".download-{dataset.name}") as folder, _quiet_and_bounded():
        try:
            (_with_pyg if plan.library == "torch_geometric" else _with_ogb)(plan, folder)
        except GamlpError:
            raise
        except Exception as error:  # whatever a server or a library does, the user hears where files go
            raise GamlpError(f"the download failed ({type(error).__name__}: {error})") from error
        for found in sorted(folder.glob("*/*" if plan.root else "[!.]*")):
            place = root / found.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(place, ignore_errors=True)
            found.rename(place)


def _with_pyg(plan: Download, folder: Path) -> None:
    dataset = pyg_dataset(plan, folder)
    Path(dataset.raw_dir).mkdir(parents=True, exist_ok=True)
    dataset.download()


def pyg_dataset(plan: Download, folder: Path) -> Any:
    """PyG's dataset, which knows its files, without its constructor, which would process them."""
    kind = getattr(_library("torch_geometric.datasets", "torch-geometric"), plan.name)
    dataset = kind.__new__(kind)
    dataset.root = str(folder / plan.root)
    for name, value in plan.attributes.items():
        setattr(dataset, name, value)
    return dataset


def _with_ogb(plan: Download, folder: Path) -> None:
    url = _library("ogb.utils.url", "ogb")
    master = Path(_library("ogb.nodeproppred", "ogb").__file__).with_name("master.csv")
    with master.open(newline="") as file:
        about = {row[""]: row[plan.name] for row in csv.DictReader(file)}
    archive = url.download_url(about["url"], str(folder), log=False)
    url.extract_zip(archive, str(folder))
    Path(archive).unlink()
    (folder / about["download_name"]).rename(folder / plan.name.replace("-", "_"))


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(package, "datasets") from error


@contextlib.contextmanager
def _quiet_and_bounded() -> Iterator[None]:
    """Libraries print, and their sockets wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_STALL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        socket.setdefaulttimeout(before)


def _answers(address: str) -> bool:
    """Whether the host, or the proxy on the way, accepts a connection soon; looking its name up may hang."""
    target = urllib.parse.urlsplit(address)
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy:
        target = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    port = target.port or (443 if target.scheme == "https" else 80)
    answered = threading.Event()

    def ask() -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((target.hostname or "", port), timeout=_ANSWER),
        ):
            answered.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER)
    return answered.is_set()
