"""A zip beside the raw folder, unpacked with care: known names only, bounded sizes."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.sizes import format_size

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
