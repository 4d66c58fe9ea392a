"""Parameters of the estimator in Spark ML's manner, each with a getter and a setter."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasSeed,
    HasThresholds,
    HasWeightCol,
)

from gamlp.errors import GamlpError
from gamlp.graph.ingest import EdgeNames, IngestOptions, NodeNames
from gamlp.io import Untrusted, parse_size
from gamlp.recipe import Recipe, shipped_names
from gamlp.spark.watch import FOR_EXECUTORS

Self = TypeVar("Self", bound="GAMLPParams")


def _recipe(value: Any) -> Any:
    """A shipped recipe stays its name; all others become what they say: JSON that is good without their file."""
    if isinstance(value, str) and value in shipped_names():
        return value
    if not isinstance(value, Recipe | str | Path | dict):
        raise TypeError("a recipe is a name, the path of a YAML file, a dict or a Recipe")
    try:
        return Recipe.of(value).explicit()
    except Untrusted as error:  # here it is only read: `fit` asks for trust in its code
        return Recipe.of(value, trust=error.name).explicit()


def _memory(value: Any) -> int:
    return parse_size(value) if isinstance(value, str) else int(TypeConverters.toInt(value))


def _one_of(*names: str) -> Any:
    def check(value: Any) -> str:
        if value not in names:
            raise GamlpError(f"'{value}' is none of {', '.join(names)}")
        return str(value)

    return check


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame of Spark. By its class: a column may be called as an attribute is."""
    return hasattr(type(value), "sparkSession") and hasattr(type(value), "columns")


def _table(value: Any) -> Any:
    """A frame stays itself; a name is a table that Spark finds when it is read."""
    if isinstance(value, str) or is_frame(value):
        return value
    raise TypeError("a table is a DataFrame, or the name of a table in Spark's catalogue")


def _above_zero(value: Any) -> int:
    number = int(TypeConverters.toInt(value))
    if number < 1:
        raise GamlpError(f"{number} are too few", hint="numProcesses and blocks are numbers above zero")
    return number


class GAMLPParams(
    HasFeaturesCol, HasLabelCol, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol, HasSeed, HasThresholds,
    HasWeightCol,
):  # fmt: skip
    """What the estimator and its model share."""

    idCol: Param[str] = Param(Params._dummy(), "idCol", "nodes: id, integers or strings", TypeConverters.toString)
    splitCol: Param[str] = Param(
        Params._dummy(),
        "splitCol",
        "nodes: train, valid, test or empty; where there is no such column, labelled nodes are split at random by seed",
        TypeConverters.toString,
    )
    srcCol: Param[str] = Param(Params._dummy(), "srcCol", "edges: id of the source", TypeConverters.toString)
    dstCol: Param[str] = Param(Params._dummy(), "dstCol", "edges: id of the target", TypeConverters.toString)
    edges: Param[Any] = Param(
        Params._dummy(),
        "edges",
        "the edges, where fit and transform are given nodes alone, as by a Pipeline: a DataFrame, which is not saved, "
        "or the name of a table",
        _table,
    )
    nodes: Param[Any] = Param(
        Params._dummy(),
        "nodes",
        "id and features of all nodes, where fit and transform are given some, as by CrossValidator: a DataFrame, "
        "which is not saved, or the name of a table",
        _table,
    )
    predictedLabelCol: Param[str] = Param(
        Params._dummy(), "predictedLabelCol", "to write: the class, in the label's own type", TypeConverters.toString
    )
    directed: Param[bool] = Param(
        Params._dummy(), "directed", "whether an edge leads one way only", TypeConverters.toBoolean
    )
    recipe: Param[Any] = Param(
        Params._dummy(), "recipe", "name, path of a YAML file, dict or Recipe; none: the defaults", _recipe
    )
    trust: Param[str] = Param(
        Params._dummy(),
        "trust",
        "import path of the model of one's own that the recipe may name, whose code then runs; it is not saved",
        TypeConverters.toString,
    )
    workDir: Param[str] = Param(
        Params._dummy(),
        "workDir",
        "folder or fsspec URL that driver and executors see, for graphs and hops; none: a temporary one, where all of "
        "Spark is on this machine",
        lambda value: TypeConverters.toString(str(value) if isinstance(value, Path) else value),
    )
    numProcesses: Param[int] = Param(
        Params._dummy(), "numProcesses", "processes that train together, each a task of Spark", _above_zero
    )
    exchange: Param[str] = Param(
        Params._dummy(),
        "exchange",
        "of gradients between processes: all-reduce, or a parameter server; none: what the recipe says",
        _one_of("all-reduce", "server"),
    )
    servers: Param[int] = Param(
        Params._dummy(),
        "servers",
        "with exchange server: tasks that hold a slice of the weights each; none: what the recipe says",
        _above_zero,
    )
    blocks: Param[int] = Param(
        Params._dummy(), "blocks", "blocks of rows, a task each; none: by memory and cores", _above_zero
    )
    memory: Param[int] = Param(Params._dummy(), "memory", "bytes a task may hold, or as '2GiB'; none: 1 GiB", _memory)
    executorWait: Param[float] = Param(
        Params._dummy(), "executorWait", "seconds in which executors for numProcesses may start", TypeConverters.toFloat
    )
    featuresDtype: Param[str] = Param(
        Params._dummy(),
        "featuresDtype",
        "how features are kept: float32, float16, bfloat16",
        _one_of("float32", "float16", "bfloat16"),
    )
    onBad: Param[str] = Param(
        Params._dummy(), "onBad", "stop at bad rows, or skip them: their prediction is null", _one_of("stop", "skip")
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(idCol="id", splitCol="split", srcCol="src", dstCol="dst", directed=False, numProcesses=1)
        self._setDefault(seed=0, featuresDtype="float32", onBad="stop", predictedLabelCol="predictedLabel")
        self._setDefault(executorWait=FOR_EXECUTORS)

    def _given(self, name: str) -> Any:
        """The value of a parameter that may be left open."""
        param = self.getParam(name)
        return self.getOrDefault(param) if self.isDefined(param) else None

    def graph_options(self, columns: list[str], *, fit: bool, name: str) -> IngestOptions:
        """How tables are read. Labels and split are needed for `fit` alone, the split only where it was named."""
        label, split = self.getLabelCol(), self.getSplitCol()
        nodes = NodeNames(
            id=self.getIdCol(),
            label=label if fit or label in columns else "",
            split=split if split in columns or (fit and self.isSet(self.splitCol)) else "",
            features=self.getFeaturesCol(),
        )
        edges = EdgeNames(self.getSrcCol(), self.getDstCol(), self._given("weightCol") or "", "")
        return IngestOptions(
            edge_names=edges,
            node_names=nodes,
            directed=self.getDirected(),
            dtype=self.getFeaturesDtype(),
            on_bad=self.getOnBad(),
            seed=self.getSeed(),
            name=name,
        )

    def getIdCol(self) -> str:
        """Column of nodes: their id."""
        return self.getOrDefault(self.idCol)

    def getSplitCol(self) -> str:
        """Column of nodes: train, valid, test or empty."""
        return self.getOrDefault(self.splitCol)

    def getSrcCol(self) -> str:
        """Column of edges: source."""
        return self.getOrDefault(self.srcCol)

    def getDstCol(self) -> str:
        """Column of edges: target."""
        return self.getOrDefault(self.dstCol)

    def getEdges(self) -> Any:
        """The edges, or the name of their table; None: given with the nodes."""
        return self._given("edges")

    def getNodes(self) -> Any:
        """All nodes, or the name of their table; None: those that are given."""
        return self._given("nodes")

    def getPredictedLabelCol(self) -> str:
        """Column to write: the class, in the label's own type."""
        return self.getOrDefault(self.predictedLabelCol)

    def getDirected(self) -> bool:
        """Whether an edge leads one way only."""
        return self.getOrDefault(self.directed)

    def getRecipe(self) -> Any:
        """The recipe, as its name or as what it says; None: left open."""
        return self._given("recipe")

    def getTrust(self) -> str | None:
        """The model of one's own that the recipe may name; None: left open."""
        value: str | None = self._given("trust")
        return value

    def getWorkDir(self) -> str | None:
        """Folder or URL for graphs and hops; None: left open."""
        value: str | None = self._given("workDir")
        return value

    def getNumProcesses(self) -> int:
        """Processes that train together."""
        return self.getOrDefault(self.numProcesses)

    def getExchange(self) -> str | None:
        """How gradients are exchanged between processes; None: left open."""
        value: str | None = self._given("exchange")
        return value

    def getServers(self) -> int | None:
        """Tasks that hold a slice of the weights each; None: left open."""
        value: int | None = self._given("servers")
        return value

    def getBlocks(self) -> int | None:
        """Blocks of rows; None: left open."""
        value: int | None = self._given("blocks")
        return value

    def getMemory(self) -> int | None:
        """Bytes a task may hold; None: left open."""
        value: int | None = self._given("memory")
        return value

    def getExecutorWait(self) -> float:
        """Seconds in which executors may start."""
        return self.getOrDefault(self.executorWait)

    def getFeaturesDtype(self) -> Any:
        """How features are kept."""
        return self.getOrDefault(self.featuresDtype)

    def getOnBad(self) -> Any:
        """What becomes of bad rows."""
        return self.getOrDefault(self.onBad)

    def setIdCol(self: Self, value: str) -> Self:
        """Column of nodes: their id."""
        return self._set(idCol=value)

    def setSplitCol(self: Self, value: str) -> Self:
        """Column of nodes: train, valid, test or empty."""
        return self._set(splitCol=value)

    def setSrcCol(self: Self, value: str) -> Self:
        """Column of edges: source."""
        return self._set(srcCol=value)

    def setDstCol(self: Self, value: str) -> Self:
        """Column of edges: target."""
        return self._set(dstCol=value)

    def setEdges(self: Self, value: Any) -> Self:
        """The edges, or the name of their table."""
        return self._set(edges=value)

    def setNodes(self: Self, value: Any) -> Self:
        """All nodes, or the name of their table."""
        return self._set(nodes=value)

    def setPredictedLabelCol(self: Self, value: str) -> Self:
        """Column to write: the class, in the label's own type."""
        return self._set(predictedLabelCol=value)

    def setRawPredictionCol(self: Self, value: str) -> Self:
        """Column to write: a vector of logarithms of the probabilities, or of their odds."""
        return self._set(rawPredictionCol=value)

    def setThresholds(self: Self, value: list[float]) -> Self:
        """One for each class: the class with the largest probability / threshold is said."""
        return self._set(thresholds=value)

    def setDirected(self: Self, value: bool) -> Self:
        """Whether an edge leads one way only."""
        return self._set(directed=value)

    def setRecipe(self: Self, value: Any) -> Self:
        """The recipe, as its name or as what it says."""
        return self._set(recipe=value)

    def setTrust(self: Self, value: str) -> Self:
        """The model of one's own that the recipe may name."""
        return self._set(trust=value)

    def setWorkDir(self: Self, value: str | Path) -> Self:
        """Folder or URL for graphs and hops."""
        return self._set(workDir=value)

    def setNumProcesses(self: Self, value: int) -> Self:
        """Processes that train together."""
        return self._set(numProcesses=value)

    def setExchange(self: Self, value: str) -> Self:
        """Choose how gradients are exchanged between processes."""
        return self._set(exchange=value)

    def setServers(self: Self, value: int) -> Self:
        """Tasks that hold a slice of the weights each, with exchange server."""
        return self._set(servers=value)

    def setBlocks(self: Self, value: int) -> Self:
        """Blocks of rows."""
        return self._set(blocks=value)

    def setMemory(self: Self, value: int | str) -> Self:
        """Bytes a task may hold."""
        return self._set(memory=value)

    def setExecutorWait(self: Self, value: float) -> Self:
        """Seconds in which executors may start."""
        return self._set(executorWait=value)

    def setFeaturesDtype(self: Self, value: str) -> Self:
        """How features are kept."""
        return self._set(featuresDtype=value)

    def setOnBad(self: Self, value: str) -> Self:
        """What becomes of bad rows."""
        return self._set(onBad=value)

    def setFeaturesCol(self: Self, value: str) -> Self:
        """Column of nodes: a list or an ML vector, or several columns of numbers, joined by commas."""
        return self._set(featuresCol=value)

    def setLabelCol(self: Self, value: str) -> Self:
        """Column of nodes: the class, or a list of classes; null where unknown."""
        return self._set(labelCol=value)

    def setPredictionCol(self: Self, value: str) -> Self:
        """Column to write: the class as a number, which evaluators compare."""
        return self._set(predictionCol=value)

    def setProbabilityCol(self: Self, value: str) -> Self:
        """Column to write: a vector, in the order of the model's classes."""
        return self._set(probabilityCol=value)

    def setWeightCol(self: Self, value: str) -> Self:
        """Column of edges: weight."""
        return self._set(weightCol=value)

    def setSeed(self: Self, value: int) -> Self:
        """Of a random split, and of training where the recipe names no seeds."""
        return self._set(seed=value)
