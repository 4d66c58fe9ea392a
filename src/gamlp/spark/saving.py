"""Estimators and models on disk: parameters as Spark ML's JSON and, of a model, its bundle; no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gamlp.errors import GamlpError, MissingExtra

try:
    from pyspark import __version__ as pyspark_version
    from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
except ImportError as error:
    raise MissingExtra("pyspark", "spark") from error

from gamlp.io import Place, Trust, check_trusted, is_url
from gamlp.spark.params import GAMLPParams, is_frame
from gamlp.training import Bundle, loaded

_METADATA, _BUNDLE = "metadata/part-00000", "bundle.safetensors"


class SavedParams(GAMLPParams, MLWritable, MLReadable[Any]):
    """Saved as a folder or under a fsspec URL. Frames are not: a table that is to be saved is given by its name."""

    def save(self, path: str | Path) -> None:
        """Write to a new folder; `write().overwrite().save(path)` replaces one."""
        self.write().save(str(path))

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> Any:
        return _Reader(cls)

    @classmethod
    def load(cls, path: str | Path, trust: Trust = None) -> Any:
        """What `save` wrote. A model of your own code is built, and a URL of another store asked, only where `trust`
        names it.
        """
        return _Reader(cls, trust).load(str(path))

    def _content(self) -> tuple[dict[str, Any], bytes | None]:
        """What metadata says beside the parameters, and the bundle."""
        return {}, None

    def _adopt(self, content: dict[str, Any], bundle: Bundle | None) -> None:
        """Take in what `_content` gave."""


class _Writer(MLWriter):
    """The bundle first and the metadata last, so that what has metadata is whole."""

    def __init__(self, instance: SavedParams) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        place = Place.of(path)
        content, bundle = self.instance._content()
        if place.exists() or place.names():
            if not self.shouldOverwrite:
                raise GamlpError("already exists", file=path, hint="write().overwrite().save(PATH) replaces it")
            place.remove()
        if bundle is not None:
            (place / _BUNDLE).put(bundle)
        values = {param.name: value for param, value in self.instance._paramMap.items() if not is_frame(value)}
        write = DefaultParamsWriter._get_metadata_to_save
        text = write(self.instance, _Version(), extraMetadata=content, paramMap=values)  # type: ignore[arg-type]
        (place / _METADATA).put((text + "\n").encode())


class _Version:
    """All that Spark's own writer asks a session for."""

    version = pyspark_version


class _Reader(MLReader[Any]):
    def __init__(self, kind: type[SavedParams], trust: Trust = None) -> None:
        super().__init__()
        self.kind, self.trust = kind, trust

    def load(self, path: str) -> Any:
        place = Place.of(path)
        try:
            found = json.loads((place / _METADATA).read())
            kind = found["class"].rpartition(".")[2]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise GamlpError(f"holds no saved {self.kind.__name__}", file=path) from error
        if kind != self.kind.__name__:
            raise GamlpError(f"holds a {kind}, no {self.kind.__name__}", file=path, hint=f"use {kind}.load")
        made = self.kind()
        try:
            bundle = loaded((place / _BUNDLE).read(), self.trust) if (place / _BUNDLE).exists() else None
            made._resetUid(found["uid"])
            DefaultParamsReader.getAndSetParams(made, found)
            self._check_places(made, found, path)
            made._adopt(found, bundle)
        except (KeyError, TypeError, AttributeError) as error:
            raise GamlpError("damaged or foreign metadata", file=path, hint="save the model again") from error
        return made

    def _check_places(self, made: SavedParams, found: dict[str, Any], path: str) -> None:
        """Trust is a person's, never a file's; a URL of another store than the one that was typed needs it too."""
        made.clear(made.trust)
        if isinstance(self.trust, str):
            made.setTrust(self.trust)
        store = urlsplit(path)[:2]
        for url in (made.getWorkDir(), (found.get("home") or {}).get("place")):
            if url is not None and is_url(url) and urlsplit(url)[:2] != store:
                check_trusted(url, self.trust, f"its files are at '{url}', which is asked only when you name it", path)
