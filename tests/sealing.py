"""Checksums and digests made right again after a test changed a folder, to reach what is looked at beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gamlp.io import checksum, sealed


def write_sealed(manifest: Path, content: dict[str, Any]) -> None:
    """Write changed JSON with the digest of what it says now."""
    manifest.write_text(json.dumps(sealed({key: value for key, value in content.items() if key != "digest"})))


def seal_graph(folder: Path) -> None:
    """Sizes and checksums of all files of a graph folder as they are now."""
    content = json.loads((folder / "graph.json").read_text())
    for name in content["files"]:
        path = folder / name
        content["files"][name] = {"bytes": path.stat().st_size, "crc32": checksum(path)}
    write_sealed(folder / "graph.json", content)


def seal_store(folder: Path) -> None:
    """The same of a store."""
    content = json.loads((folder / "store.json").read_text())
    files = [(folder, file) for file in content["answers"]["files"]]
    for entry in content["signals"].values():
        files += [(folder / entry["folder"], file) for file in [*entry["shards"], *filter(None, [entry["rows"]])]]
    for place, file in files:
        file |= {"bytes": (place / file["name"]).stat().st_size, "crc32": checksum(place / file["name"])}
    write_sealed(folder / "store.json", content)
