"""What is made once is kept beside the graph's hops: float32 rows in `<kind>-<key>.npy`, whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.graph import Features
from gamlp.row_arrays import Written, bytes_of, open_rows, put_rows
from gamlp.storage import Place

FOLDER = "made"


@dataclass(frozen=True)
class Cache:
    """A folder, here or behind a URL, of features that were made; a key says all that they depend on."""

    folder: Place

    def place(self, kind: str, key: str) -> Place:
        return self.folder / f"{kind}-{key}.npy"

    def found(self, kind: str, key: str, shape: tuple[int, int]) -> Features | None:
        """Mapped, if they were made before; a file of another size, shape or type is as good as none."""
        place = self.place(kind, key)
        if place.size() != bytes_of(shape, np.float32):
            return None
        try:
            values = open_rows(place)
            fits = tuple(values.shape) == shape and values.dtype == np.float32
        except GamlpError:
            return None
        return Features(values) if fits else None

    def keep(self, kind: str, key: str, values: Written) -> Features:
        """Written beside, renamed and mapped."""
        self.folder.make()
        put_rows(self.place(kind, key), values)
        return Features(open_rows(self.place(kind, key)))
