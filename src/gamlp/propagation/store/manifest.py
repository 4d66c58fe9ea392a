"""What a store says of itself: signals with their shards, views, targets; the sizes and checksums of all its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, model_validator

from gamlp.errors import GamlpError
from gamlp.graph import ClassType, Direction, FeatureColumn, FileName
from gamlp.io import Place, unsealed
from gamlp.kernel import FloatName
from gamlp.propagation.plan import Statistics
from gamlp.recipe import FeaturesSettings

MANIFEST = "store.json"


class _StoreEntry(BaseModel):
    # Some fields keep an older name in the file.
    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


class StoredFile(_StoreEntry):
    name: FileName
    bytes: NonNegativeInt
    crc32: int


class ShardEntry(StoredFile):
    start: NonNegativeInt
    stop: NonNegativeInt


class SignalEntry(_StoreEntry):
    """One stored signal, `[rows, hops + 1, width]` in shards of rows."""

    key: str
    settings: dict[str, Any]
    hops: NonNegativeInt
    width: NonNegativeInt
    dtype: FloatName
    folder: FileName
    count: NonNegativeInt
    rows: StoredFile | None  # None: all nodes
    shards: list[ShardEntry]

    @model_validator(mode="after")
    def _shards_follow(self) -> SignalEntry:
        bounds = [0, *(shard.stop for shard in self.shards)]
        if bounds[:-1] != [shard.start for shard in self.shards] or bounds[-1] != self.count:
            raise ValueError(f"shards do not hold {self.count} rows one after another")
        return self


class TargetsEntry(_StoreEntry):
    """Labels and roles of the graph's nodes, copied so that a store can be trained on by itself."""

    key: str
    classes: list[str] | None
    class_type: ClassType = "string"
    files: list[StoredFile]


class ViewEntry(_StoreEntry):
    """A subset of a graph's relations, and the types that they connect with the target, which comes first.

    `direction` where those of a graph's one relation are told apart.
    """

    relation_pairs: list[str] = Field(validation_alias="links", serialization_alias="links")
    types: list[str]
    direction: Direction | None = None

    @property
    def words(self) -> str:
        """As a person reads it."""
        return " + ".join(self.relation_pairs) + (f" ({self.direction})" if self.direction else "")


class StoreManifest(_StoreEntry):
    """`columns` of the features by node type, where they have names; `statistics` that `standard` scaling went by.

    `structural`: the settings by which features were made of edges; None: they were given.
    """

    format: Literal["gamlp-store"] = "gamlp-store"
    version: Literal[1] = 1
    graph: str
    graph_folder: str | None
    structure: str
    nodes: NonNegativeInt
    targets: TargetsEntry = Field(validation_alias="answers", serialization_alias="answers")
    signals: dict[str, SignalEntry]
    views: dict[str, ViewEntry] = {}
    columns: dict[str, list[FeatureColumn]] = {}
    statistics: dict[str, Statistics] = {}
    structural: FeaturesSettings | None = None


def read_manifest(place: str | Path | Place) -> StoreManifest:
    """Read and check a store's manifest and the sizes of its files."""
    folder = Place.of(place)
    path = folder / MANIFEST
    try:
        manifest = StoreManifest.model_validate(unsealed(path.read()))
    except (FileNotFoundError, NotADirectoryError) as error:
        if (folder / "plan.json").exists():
            raise GamlpError(
                "the store is unfinished", file=folder, hint="run the same gamlp propagate again: it goes on"
            ) from error
        raise GamlpError(
            f"not a store (no {MANIFEST})",
            file=folder,
            hint="make one with: gamlp propagate GRAPH --out STORE",
        ) from error
    except (ValidationError, ValueError, GamlpError) as error:  # the last: statistics that cannot be
        raise GamlpError(
            "damaged or foreign store manifest", file=path, hint="propagate into another folder"
        ) from error
    for found, file in files_of(folder, manifest) if folder.local is not None else ():
        if found.size() != file.bytes:
            raise GamlpError("is missing or has another size", file=found, hint="propagate again elsewhere")
    return manifest


def files_of(folder: Place, manifest: StoreManifest) -> list[tuple[Place, StoredFile]]:
    """Every file of a store with what is known of it."""
    found = [(folder / file.name, file) for file in manifest.targets.files]
    for entry in manifest.signals.values():
        own: list[StoredFile] = [*entry.shards, *([entry.rows] if entry.rows else [])]
        found += [(folder / entry.folder / file.name, file) for file in own]
    return found
