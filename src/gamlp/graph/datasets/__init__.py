"""Datasets by name: bundled, generated, or read from raw files and kept in a cache. PyG is not imported for it."""

from gamlp.graph.datasets.catalogue import (
    DATASETS,  # the catalogue, by name
    Dataset,  # a name with its files, reader, split and counts
    find_dataset,  # by name: of the catalogue, or brought by another package
    is_dataset,  # whether a name is one of these
)
from gamlp.graph.datasets.loading import (
    cache_folder,  # where converted graphs are kept
    data_folder,  # where raw files are looked for
    load,  # a dataset as a graph
    open_or_load,  # a graph folder or URL, or a dataset by name
    presence,  # every dataset, and whether its files are here
)
from gamlp.graph.datasets.synthetic import communities, mag_like, short_video  # generators, by the numbers wanted

__all__ = ["DATASETS", "Dataset", "cache_folder", "communities", "data_folder", "find_dataset", "is_dataset"]
__all__ += ["load", "mag_like", "open_or_load", "presence", "short_video"]
