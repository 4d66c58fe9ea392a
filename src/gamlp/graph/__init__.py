"""Graphs: nodes with features, labels and splits, joined by relations, in folders of memory-mapped arrays."""

# Names that change with what a graph holds: fingerprint.structure(graph), .features, .training_labels, .targets
from gamlp.graph import fingerprint

# What classes are that have names
from gamlp.graph.class_types import ClassType, arrow_classes, class_type_of, class_values, fits_type

# What arrays may hold
from gamlp.graph.contents import DAMAGED_HINT, ascend, check_label_numbers, check_roles, stray_neighbour

# Entries of relations
from gamlp.graph.entries import contained

# Ids as people write them → rows
from gamlp.graph.finding import ids_in_file, rows_by_id, split_ids

# Graph folders
from gamlp.graph.folder import check_name

# The graph and its parts
from gamlp.graph.graph import ROLES, UNKNOWN, Block, Features, Graph, Ids, Labels, Nodes, Relation, Split

# Whether neighbours agree
from gamlp.graph.homophily import AgreementCounts, Homophily, drawn_rows, drawn_share, edge_homophily

# A keyed hash of original ids
from gamlp.graph.id_hash import hash_key, id_hashes

# The graph of some nodes alone
from gamlp.graph.induced import induce
from gamlp.graph.induced_blocks import induced_by_tasks

# What a folder's manifest says
from gamlp.graph.manifest import (
    MANIFEST,
    BlockEntry,
    FeaturesEntry,
    FileEntry,
    FileFacts,
    FileName,
    GraphManifest,
    LabelsEntry,
    NodesEntry,
    RawEntry,
    RelationEntry,
    block_folder,
    features_files,
    nodes_folder,
    raw_file,
)
from gamlp.graph.opening import damaged_files

# PyG's Data and HeteroData → Graph
from gamlp.graph.pyg import as_graph

# Feature columns as their table had them
from gamlp.graph.raw import RawColumns, block_bytes, write_block

# Which types a relation joins
from gamlp.graph.relations import ONE_RELATION, ONE_TYPE, DeclaredRelation, RelationEnds

# Names and types of feature columns, and how those of another table are matched
from gamlp.graph.schema import FeatureColumn, FeatureSchema, PickedColumns, match_columns, name_some, total_width

# Parts of a graph as tasks elsewhere read them
from gamlp.graph.sent_parts import DegreesByRow, RowDegrees, TargetIds, TargetRelations, relation_degrees

# A folder that several tasks write
from gamlp.graph.shared_folder import Building, building

# Splits at random
from gamlp.graph.splits import check_fractions, random_split, roles_by_id

# What a notebook shows
from gamlp.graph.summary import columns_html

# Ids that are texts, in one file or several
from gamlp.graph.text_ids import IdShards, id_files, id_shards, shard_bounds

# Several relations as one
from gamlp.graph.union import union_by_tasks, union_graphs

# Views: subsets of relations
from gamlp.graph.views import (
    Direction,
    Directions,
    View,
    directed_views,
    told_apart,
    touches_target,
    view_name,
    view_of,
    whole_view,
)

# A short name for JSON content
from gamlp.io import digest

__all__ = [
    "DAMAGED_HINT",
    "MANIFEST",
    "ONE_RELATION",
    "ONE_TYPE",
    "ROLES",
    "UNKNOWN",
    "AgreementCounts",
    "Block",
    "BlockEntry",
    "Building",
    "ClassType",
    "DeclaredRelation",
    "DegreesByRow",
    "Direction",
    "Directions",
    "FeatureColumn",
    "FeatureSchema",
    "Features",
    "FeaturesEntry",
    "FileEntry",
    "FileFacts",
    "FileName",
    "Graph",
    "GraphManifest",
    "Homophily",
    "IdShards",
    "Ids",
    "Labels",
    "LabelsEntry",
    "Nodes",
    "NodesEntry",
    "PickedColumns",
    "RawColumns",
    "RawEntry",
    "Relation",
    "RelationEnds",
    "RelationEntry",
    "RowDegrees",
    "Split",
    "TargetIds",
    "TargetRelations",
    "View",
    "arrow_classes",
    "as_graph",
    "ascend",
    "block_bytes",
    "block_folder",
    "building",
    "check_fractions",
    "check_label_numbers",
    "check_name",
    "check_roles",
    "class_type_of",
    "class_values",
    "columns_html",
    "contained",
    "damaged_files",
    "digest",
    "directed_views",
    "drawn_rows",
    "drawn_share",
    "edge_homophily",
    "features_files",
    "fingerprint",
    "fits_type",
    "hash_key",
    "id_files",
    "id_hashes",
    "id_shards",
    "ids_in_file",
    "induce",
    "induced_by_tasks",
    "match_columns",
    "name_some",
    "nodes_folder",
    "random_split",
    "raw_file",
    "relation_degrees",
    "roles_by_id",
    "rows_by_id",
    "shard_bounds",
    "split_ids",
    "stray_neighbour",
    "told_apart",
    "total_width",
    "touches_target",
    "union_by_tasks",
    "union_graphs",
    "view_name",
    "view_of",
    "whole_view",
    "write_block",
]
