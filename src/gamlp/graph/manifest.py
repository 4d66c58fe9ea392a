"""The manifest of a graph folder, validated on reading: what is in it and which file holds it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, StringConstraints, ValidationError, model_validator

from gamlp.errors import GamlpError
from gamlp.graph.class_types import ClassType, fits_type
from gamlp.graph.schema import FeatureColumn, repeated_name, total_width
from gamlp.io import Place, sealed, unsealed
from gamlp.kernel import FloatName

MANIFEST = "graph.json"
FileFacts = dict[str, list[int]]  # name in the graph → bytes and CRC-32

# One part of a path, and several: a manifest never leads out of its folder.
_PART = r"[^./\\\x00][^/\\\x00]*"
FileName = Annotated[str, StringConstraints(pattern=f"^{_PART}$")]
FilePath = Annotated[str, StringConstraints(pattern=f"^{_PART}(/{_PART})*$")]


class _ManifestEntry(BaseModel):
    # Some fields keep an older name in the file.
    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


class FeaturesEntry(_ManifestEntry):
    """In one file; with `shards` in several, as Spark writes them: `shards[i]` is the first row after file i.

    `columns` are those of the table that features were read from; None: they have no names.
    """

    width: NonNegativeInt
    dtype: FloatName
    shards: list[NonNegativeInt] | None = None
    columns: list[FeatureColumn] | None = None

    @model_validator(mode="after")
    def _columns_fit(self) -> FeaturesEntry:
        if self.columns is not None:
            if (held := total_width(self.columns)) != self.width:
                raise ValueError(f"columns hold {held} features, not {self.width}")
            if (twice := repeated_name(self.columns)) is not None:
                raise ValueError(f"two columns are called '{twice}'")
        return self


class LabelsEntry(_ManifestEntry):
    multi_label: bool = Field(validation_alias="many", serialization_alias="many")
    classes: list[str]
    class_type: ClassType = "string"

    @model_validator(mode="after")
    def _classes_fit(self) -> LabelsEntry:
        if not fits_type(self.classes, self.class_type):
            raise ValueError(f"classes are no {self.class_type} values")
        return self


class RawEntry(_ManifestEntry):
    """Feature columns as the table had them, in blocks of rows: `blocks[i]` is the first row after file i."""

    blocks: list[NonNegativeInt]


class NodesEntry(_ManifestEntry):
    """Ids that are strings lie in one file; with `id_shards` in several, `id_shards[i]` the first row after file i."""

    count: NonNegativeInt
    ids: Literal["range", "integers", "strings"] = "range"
    id_shards: list[NonNegativeInt] | None = None
    features: FeaturesEntry | None = None
    labels: LabelsEntry | None = None
    split: bool = False
    raw: RawEntry | None = None


class BlockEntry(_ManifestEntry):
    start: NonNegativeInt
    stop: NonNegativeInt
    entries: NonNegativeInt


class RelationEntry(_ManifestEntry):
    """`reverse` names the relation that holds the same edges the other way, where there is one."""

    source: str
    target: str
    directed: bool
    weighted: bool
    blocks: list[BlockEntry]
    reverse: str | None = None


class FileEntry(_ManifestEntry):
    """`at`: where the file lies in the folder, if not under its name: of a graph that has grown."""

    bytes: NonNegativeInt
    crc32: int
    at: FilePath | None = None


class GraphManifest(_ManifestEntry):
    """`earlier`: the relations as they were when a part of a split by time ended."""

    format: Literal["gamlp-graph"] = "gamlp-graph"
    version: Literal[1] = 1
    name: str
    target: str
    nodes: dict[FileName, NodesEntry]
    relations: dict[FileName, RelationEntry]
    earlier: dict[FileName, dict[FileName, RelationEntry]] = {}
    source: dict[str, Any]
    files: dict[FilePath, FileEntry]

    @model_validator(mode="after")
    def _parts_fit(self) -> GraphManifest:
        if self.target not in self.nodes:
            raise ValueError(f"no nodes of type '{self.target}'")
        for node_type, nodes in self.nodes.items():
            parts = {
                f"shards of features of '{node_type}'": None if nodes.features is None else nodes.features.shards,
                f"raw columns of '{node_type}'": None if nodes.raw is None else nodes.raw.blocks,
                f"shards of ids of '{node_type}'": nodes.id_shards,
            }
            for name, ends in parts.items():
                stops = [0] if ends is None else [0, *ends]
                if ends is not None and (sorted(stops) != stops or stops[-1] != nodes.count):
                    raise ValueError(f"{name} do not hold {nodes.count} rows")
        for relations in (self.relations, *self.earlier.values()):
            self._check_relations(relations)
        return self

    def _check_relations(self, relations: dict[str, RelationEntry]) -> None:
        for name, relation in relations.items():
            for node_type in (relation.source, relation.target):
                if node_type not in self.nodes:
                    raise ValueError(f"relation '{name}' joins unknown nodes '{node_type}'")
            rows = relation.blocks[-1].stop if relation.blocks else 0
            if relation.blocks and rows != self.nodes[relation.target].count:
                raise ValueError(f"relation '{name}' has {rows} rows, not {self.nodes[relation.target].count}")
            other = None if relation.reverse is None else relations.get(relation.reverse)
            if relation.reverse is not None and (
                other is None or (other.source, other.target, other.reverse) != (relation.target, relation.source, name)
            ):
                raise ValueError(f"relation '{name}' is not the reverse of '{relation.reverse}'")

    def to_json(self) -> bytes:
        """The file, with its own digest."""
        content = self.model_dump(mode="json")
        for entry in content["files"].values():
            if entry["at"] is None:
                del entry["at"]  # as manifests were before graphs could grow
        for nodes in content["nodes"].values():
            if nodes["id_shards"] is None:  # as older versions read it
                del nodes["id_shards"]
        if not self.earlier:
            del content["earlier"]
        return json.dumps(sealed(content), indent=1).encode()


def nodes_folder(node_type: str) -> str:
    return f"nodes/{node_type}"


def block_folder(relation: str, index: int, as_of: str | None = None) -> str:
    """`as_of`: of the relation as it was when that part of a split by time ended."""
    return f"{'' if as_of is None else earlier_folder(as_of)}relations/{relation}/{index:05d}"


def earlier_folder(as_of: str) -> str:
    """Where relations lie as they were when a part of a split by time ended; names below are as in the graph."""
    return f"as-of/{as_of}/"


def features_files(node_type: str, shards: list[int] | None) -> list[str]:
    """Names of the files that hold a node type's features."""
    if shards is None:
        return [f"{nodes_folder(node_type)}/features.npy"]
    return [f"{nodes_folder(node_type)}/features/{index:05d}.npy" for index in range(len(shards))]


def raw_file(node_type: str, block: int) -> str:
    """Name of the file that holds a block of a node type's raw columns."""
    return f"{nodes_folder(node_type)}/raw/{block:05d}.arrow"


def read_manifest(folder: Place) -> GraphManifest:
    """Read and check a graph's manifest."""
    path = folder / MANIFEST
    try:
        return GraphManifest.model_validate(unsealed(path.read()))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise GamlpError(
            f"not a graph folder (no {MANIFEST})",
            file=folder,
            hint="make one with: gamlp ingest --edges E --nodes N --out GRAPH",
        ) from error
    except (ValidationError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise GamlpError(f"damaged or foreign manifest: {place}: {first['msg']}", file=path) from error
