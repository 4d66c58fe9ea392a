"""Readers of datasets' raw files, straight into a graph folder; PyG and OGB only download."""
