"""OGB's split_dict.pt: the rows of every part, out of what torch.save wrote and without torch's own loader.

Such a file is a zip: `data.pkl` names tensors or arrays, `data/<key>` holds the numbers of a tensor. Nothing that the
pickle names is built (see inert_pickle).
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.inert_pickle import InertPickle

NAME = "split_dict.pt"
PARTS = ("train", "valid", "test")


def read_split_dict(path: Path, node_type: str | None = None) -> dict[str, Array]:
    """Numbers of rows by part: `{"train": [rows], …}`; of one type where the file has them by part and type."""
    try:
        with zipfile.ZipFile(path) as stored:
            names = {member.filename: member for member in stored.infolist()}
            top = next((name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")), None)
            # torch stores: nothing is packed, so nothing can be larger than the file.
            if top is None or any(member.compress_type != zipfile.ZIP_STORED for member in names.values()):
                raise zipfile.BadZipFile("no file that torch.save writes")
            if f"{top}byteorder" in names and stored.read(f"{top}byteorder") != b"little":
                raise zipfile.BadZipFile("its numbers are written from the other end")
            content = stored.read(f"{top}data.pkl")
            found = InertPickle(path, content, lambda key: stored.read(f"{top}data/{key}"), f"a {NAME} of OGB")
            rows = found.rows(*([] if node_type is None else [node_type]))
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
        raise GamlpError(
            f"not a readable {NAME} ({str(error) or type(error).__name__})", file=path,
            hint="save it again with a torch from 1.6 on, or put train.csv.gz, valid.csv.gz and test.csv.gz there",
        ) from error  # fmt: skip
    if missing := [part for part in PARTS if part not in rows]:
        raise GamlpError(f"no rows of '{missing[0]}' inside", file=path, hint="fetch it again")
    return {part: rows[part] for part in PARTS}
