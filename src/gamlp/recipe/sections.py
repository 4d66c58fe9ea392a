"""The sections of a recipe, each setting with its default, its limits and what it means."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Attention = Literal["recursive", "jk"]
Metric = Literal[
    "auto", "accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "roc_auc", "average_precision", "log_loss"
]


_LARGEST = 1 << 53  # of a whole number; a float holds all up to it
_MOST_OPTIONS = 1000  # plain values in model.options, those inside lists and mappings among them
_DEEPEST = 6
_LONGEST = 1000  # characters of a text among them


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class PropagationSettings(Section):
    """What is propagated: X^(0..hops) and, where the label branch is on, Y^(0..label_hops)."""

    hops: int = Field(default=5, ge=0, le=1000, description="K, hops of features")
    r: float = Field(default=0.5, ge=0, le=1, description="Â = D^(r-1) Ã D^(-r)")
    also_r: tuple[float, ...] = Field(
        default=(), max_length=16, description="r of further operators, each a channel of its own (sign-xl)"
    )
    loops: bool = Field(default=True, description="one self-loop a node")
    directions: Literal["in", "out", "both"] = Field(
        default="in",
        description="of directed edges: a node hears those that lead to it, those it leads to, or both as channels",
    )
    scaling: Literal["none", "row", "l2", "standard"] = Field(
        default="none", description="of features, before propagation"
    )
    dtype: Literal["float32", "float16", "bfloat16"] = Field(default="float32", description="how hops are stored")
    label_hops: int = Field(default=5, ge=0, le=1000, description="L, hops of training labels")
    label_r: float | None = Field(default=None, ge=0, le=1, description="r for labels; null: the same as r")
    folds: int = Field(default=0, ge=0, le=100, description="folds of cross-fitted labels; 0: the paper's way")
    fold_seed: int = Field(default=0, ge=0, le=_LARGEST, description="of the folds")
    as_of_split: bool | None = Field(
        default=None,
        description="rows see edges until the end of their own part alone; null: true where the split is by time",
    )
    rows: str = Field(
        default="all", description="rows to keep: all, labelled, split, train, valid, test, joined by '+'"
    )

    @field_validator("also_r", mode="before")
    @classmethod
    def _operators(cls, also_r: Any) -> Any:
        return tuple(also_r) if isinstance(also_r, list) else also_r

    @model_validator(mode="after")
    def _operators_differ(self) -> PropagationSettings:
        if any(not 0 <= r <= 1 for r in self.also_r):
            raise ValueError("every operator of 'propagation.also_r' has an r from 0 to 1")
        if len({self.r, *self.also_r}) <= len(self.also_r):
            raise ValueError("'propagation.also_r' are further operators: each differs from the others and from r")
        return self

    @field_validator("folds")
    @classmethod
    def _one_fold_is_none(cls, folds: int) -> int:
        if folds == 1:
            raise ValueError("one fold leaves no labels for the others: use 0 or at least 2")
        return folds


class FeaturesSettings(Section):
    """Graphs of one relation without features: log degrees and random projections of the edges (FastRP) are made."""

    structural: Literal["auto", "alone", "none"] = Field(
        default="auto",
        description="features made of edges; auto: where a graph has none; alone: in the place of those it has",
    )
    width: int = Field(default=128, ge=0, le=1 << 12, description="columns of projections; 0: log degrees alone")
    hops: int = Field(default=3, ge=1, le=100, description="of a round of projections")
    rounds: int = Field(default=4, ge=1, le=100, description="of projections: they look hops × rounds far")
    seed: int = Field(default=0, ge=0, le=_LARGEST, description="of the random signs that are projected")


class RelationsSettings(Section):
    """Graphs of several types and relations: subsets of relations are views, each with hops of its own (NARS)."""

    subsets: Literal["auto", "all", "sample", "one"] | tuple[tuple[str, ...], ...] = Field(
        default="auto",
        description="all; sample: `count` by `seed`; auto: all while they are few; one, of all relations; or a list",
    )
    count: int = Field(default=8, ge=1, le=1000, description="subsets of a sample")
    seed: int = Field(
        default=0, ge=0, le=_LARGEST, description="of the sample, and of what is made where features are missing"
    )
    separate_types: Literal["auto", "yes", "no"] = Field(
        default="auto", description="whether each type's features are a signal of their own; auto: where widths differ"
    )
    reduce: int = Field(
        default=0, ge=0, le=1 << 16, description="wider features are brought to this width (SVD); 0: left as they are"
    )
    missing: Literal["complex", "mean", "none"] = Field(
        default="complex",
        description="features of types without: ComplEx embeddings, means of neighbours, or none",
    )
    dimension: int = Field(
        default=0,
        ge=0,
        le=1 << 12,
        description="of embeddings; 0: that of `reduce` if all features have it, else 128",
    )
    embedding_epochs: int = Field(default=20, ge=1, le=1_000_000, description="of ComplEx, at most")

    @field_validator("separate_types", mode="before")
    @classmethod
    def _as_words(cls, value: Any) -> Any:
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value  # YAML reads yes as true

    @field_validator("subsets", mode="before")
    @classmethod
    def _as_tuples(cls, subsets: Any) -> Any:
        if isinstance(subsets, (list, tuple)):
            return tuple(tuple(subset) if isinstance(subset, list) else subset for subset in subsets)
        return subsets

    @field_validator("subsets")
    @classmethod
    def _distinct(cls, subsets: Any) -> Any:
        if isinstance(subsets, tuple) and (not subsets or not all(subsets)):
            raise ValueError("a list of subsets names at least one, each of at least one relation")
        return subsets


class ModelSettings(Section):
    """GAMLP's options; a peer takes those it knows, a module of your own takes `options`."""

    name: str = Field(
        default="gamlp",
        max_length=_LONGEST,
        description="gamlp, a peer (gamlp bench methods), or your own torch module as package.module:Class",
    )
    attention: Attention = Field(default="recursive", description="how hops of features are weighed")
    hidden: int = Field(default=256, ge=1, le=1 << 16, description="width of every MLP")
    layers: int = Field(default=3, ge=1, le=1000, description="depth of the output MLP")
    jk_layers: int = Field(default=2, ge=1, le=64, description="depth of the reference MLP of jk attention")
    activation: Literal["sigmoid", "relu", "leaky_relu"] = Field(
        default="leaky_relu", description="δ, around hop scores"
    )
    attention_start: Literal["random", "uniform"] = Field(
        default="random",
        description="of the attention vectors; uniform: zero, so that all hops weigh the same at first",
    )
    reference: Literal["jk", "origin", "noise", "none"] = Field(
        default="jk", description="what jk attention compares with"
    )
    input_norm: bool = Field(
        default=False, description="every feature of every hop with mean 0 and deviation 1, by batches of training"
    )
    input_dropout: float = Field(default=0.0, ge=0, lt=1, description="on hops, features and labels")
    attention_dropout: float = Field(default=0.0, ge=0, lt=1, description="on hop weights")
    mixed_dropout: float = Field(default=0.0, ge=0, lt=1, description="on mixed hops, before the output MLP")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="inside every MLP")
    batch_norm: bool = Field(default=False, description="batch norm in every MLP")
    hop_mlp: bool = Field(default=False, description="a layer of its own for every hop before attention")
    residual: bool = Field(default=False, description="add a linear map of X^(0) to what attention gives")
    initial_residual: float = Field(
        default=0.0, ge=0, le=1, description="share of the first layer in the output MLP's others"
    )
    beta: float = Field(default=1.0, ge=0, description="weight of the label branch; 0: no labels")
    label_attention: Attention | None = Field(
        default=None, description="how hops of labels are weighed; null: as attention"
    )
    label_layers: int = Field(default=2, ge=1, le=64, description="depth of the label branch's MLP")
    last_residual: Literal["cosine", "linear", "fixed", "none", "uniform"] = Field(
        default="cosine", description="α of labels"
    )
    label_zero: bool = Field(
        default=False, description="whether a training row's own answer, Y^(0), is among the label hops"
    )
    label_scale: Literal["none", "size", "hop"] = Field(
        default="none",
        description="of label hops. size: times nodes ÷ labels that were propagated; hop: each row of each hop is "
        "divided by its sum, where that is above 0",
    )
    high_pass: bool = Field(
        default=False,
        description="X^(k) - X^(k-1) beside X^(k), as channels that are mixed before attention: for graphs whose "
        "neighbours disagree",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="what a peer takes beside these (heads, alpha …); keyword arguments of your own module",
    )

    @field_validator("options")
    @classmethod
    def _plain_and_few(cls, options: dict[str, Any]) -> dict[str, Any]:
        if _count_plain(options, 0) > _MOST_OPTIONS:
            raise ValueError(f"more than {_MOST_OPTIONS} values")
        return options

    @model_validator(mode="after")
    def _can_learn(self) -> ModelSettings:
        if self.attention_start == "uniform" and self.activation == "relu":
            raise ValueError(
                "attention that starts 'uniform' never moves with activation 'relu', whose slope at 0 is 0: "
                "use sigmoid or leaky_relu"
            )
        return self

    @model_validator(mode="after")
    def _same_limits(self) -> ModelSettings:
        """An option that is a setting above obeys its limits, but for a module of one's own, which means its own."""
        if ":" not in self.name and (shared := self.options.keys() & type(self).model_fields.keys()):
            if not_there := sorted(shared & {"name", "options"}):
                raise ValueError(f"'model.options.{not_there[0]}' is no option of a model")
            type(self).model_validate({key: self.options[key] for key in shared})
        return self


def _count_plain(value: Any, depth: int) -> int:
    """How many plain values there are; anything else, and what is too large to be meant, is refused."""
    if depth > _DEEPEST:
        raise ValueError(f"lists and mappings {_DEEPEST} deep are the most")
    if isinstance(value, dict):
        if not all(isinstance(key, str) and len(key) <= _LONGEST for key in value):
            raise ValueError("names of options are short texts")
        return len(value) + sum(_count_plain(inner, depth + 1) for inner in value.values())
    if isinstance(value, list | tuple):
        return len(value) + sum(_count_plain(inner, depth + 1) for inner in value)
    if isinstance(value, str):
        if len(value) > _LONGEST:
            raise ValueError(f"a text of more than {_LONGEST} characters")
    elif isinstance(value, int | float):
        if not abs(value) <= _LARGEST:  # nor NaN
            raise ValueError(f"a number that is not finite, or beyond {_LARGEST}")
    elif value is not None:
        raise ValueError(f"a {type(value).__name__} where numbers, texts, lists and mappings are allowed")
    return 1


class TrainingSettings(Section):
    """How a model is fitted: on training rows, chosen by validation rows."""

    setting: Literal["transductive", "inductive"] = Field(
        default="transductive", description="inductive: training rows see only each other"
    )
    epochs: int = Field(default=200, ge=1, le=1_000_000_000, description="at most")
    patience: int = Field(
        default=50, ge=0, le=1_000_000_000, description="epochs without a better validation score; 0: never stop early"
    )
    metric: Metric = Field(
        default="auto",
        description="what is meant by score on validation rows; auto: accuracy (many labels: micro-F1), or average "
        "precision where the rarer of two classes has less than a tenth of the training rows",
    )
    monitor: Literal["score", "loss", "both", "smooth"] = Field(
        default="score",
        description="of validation rows: what the best epoch is best in; both: no worse in either; smooth: as score, "
        "and patience counts from the last epoch that was best in either",
    )
    window: int = Field(
        default=1, ge=1, le=10_000, description="epochs whose mean validation numbers are compared, the last so many"
    )
    keep: Literal["best", "last"] = Field(
        default="best", description="whose weights: the best validation epoch's, or after all epochs the last's"
    )
    batch_size: int = Field(default=10_000, ge=1, le=1 << 40)
    chunk: int = Field(
        default=0,
        ge=0,
        le=1 << 20,
        description="rows that are read together where hops do not fit into memory, such as 64: chunks of so many are "
        "shuffled, then the rows of some 32,768 at a time; 0: every row by itself",
    )
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=0.01, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    attention_rate: float = Field(
        default=1.0, ge=0, description="of gamlp's attention vectors, times the learning rate; 0: they stay"
    )
    attention_decay: float | None = Field(
        default=None, ge=0, description="weight decay of gamlp's attention vectors; null: the same as weight_decay"
    )
    exchange: Literal["all-reduce", "server"] = Field(
        default="all-reduce",
        description="of gradients between processes: summed before each step, or pushed to a parameter server",
    )
    staleness: int = Field(
        default=4,
        ge=0,
        le=1_000_000_000,
        description="of the parameter server: pushes that a worker may be ahead of the slowest; 0: none",
    )
    servers: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="that hold a slice of the weights each, on Spark in tasks of their own; 0: the parameter server "
        "holds them, beside whoever starts the run",
    )
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="constant", description="of the learning rate, over epochs"
    )
    warmup: int = Field(default=0, ge=0, le=1_000_000_000, description="epochs of rising learning rate")
    class_weights: Literal["none", "balanced"] = Field(
        default="none", description="balanced: rare classes weigh more in the loss"
    )
    calibrate: bool = Field(
        default=True, description="a temperature for probabilities, where it lowers the log-loss of validation rows"
    )
    subset_sample: int = Field(
        default=0, ge=0, le=1000, description="subsets of relations that a training step reads, by chance; 0: all"
    )
    reuse: int = Field(
        default=0, ge=0, le=100, description="rounds in which predictions of rows without labels come back as labels"
    )
    ema: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="d: weights that are validated and kept are w̄ ← d w̄ + (1 - d) w after every step; 0: w itself",
    )
    stages: int = Field(
        default=1,
        ge=1,
        le=100,
        description="stages of training (RLU): from the second on, the model of the stage before teaches; the best by "
        "validation rows is kept",
    )
    reliable: float = Field(
        default=0.85, ge=0, le=1, description="ε of stages: rows without labels whose teacher is at least so sure"
    )
    distillation: float = Field(
        default=1.0,
        ge=0,
        description="γ of stages: weight of the distance to the teacher on reliable rows; 0: their labels alone",
    )
    members: int = Field(
        default=1,
        ge=1,
        le=64,
        description="models of each seed, from different first weights, that are blended into one: weights from 0 that "
        "sum to one, by greedy selection with replacement on validation rows",
    )
    seeds: tuple[int, ...] = Field(
        default=(0,), min_length=1, max_length=1000, description="one model is trained for each"
    )

    @model_validator(mode="after")
    def _servers_of_an_exchange(self) -> TrainingSettings:
        if self.servers and self.exchange != "server":
            raise ValueError("servers hold weights where exchange is 'server' alone")
        return self

    @field_validator("seeds", mode="before")
    @classmethod
    def _as_tuple(cls, seeds: Any) -> Any:
        return tuple(seeds) if isinstance(seeds, list) else seeds

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 1 << 63:
            raise ValueError("seeds are different numbers from 0 to 2^63 - 1")
        return seeds


class ConsistencySettings(Section):
    """Consistency on rows without labels (SCR): several passes with dropout are drawn to what they say together.

    Of a batch of such rows, P_1..P_M are its passes; their mean (`passes`), or what an average of the model's weights
    over time says (`average`, SCR-m), is sharpened, P̄ ∝ P^(1/T), and carries no gradient.
    """

    teacher: Literal["passes", "average"] = Field(
        default="passes", description="P̄ from the passes' own mean (SCR), or from averaged weights (SCR-m)"
    )
    passes: int = Field(default=2, ge=1, le=16, description="M, forward passes with dropout")
    weight: float = Field(default=1.0, ge=0, description="λ, of this part of the loss")
    warmup: int = Field(default=0, ge=0, le=1_000_000_000, description="epochs over which λ rises from 0")
    temperature: float = Field(default=0.5, gt=0, le=10, description="T: below 1, P̄ is sharper than P")
    confidence: float = Field(default=0.0, ge=0, le=1, description="ε: rows whose max P̄ is lower are left out")
    distance: Literal["squared", "kl"] = Field(default="squared", description="of each pass from P̄")
    batch_size: int | None = Field(
        default=None, ge=1, le=1 << 40, description="rows without labels a step; null: as many as training.batch_size"
    )
    decay: float = Field(default=0.99, ge=0, lt=1, description="of the averaged weights, after every step")

    @model_validator(mode="after")
    def _two_passes(self) -> ConsistencySettings:
        if self.teacher == "passes" and self.passes < 2:
            raise ValueError("one pass agrees with itself: use 'consistency.passes' 2, or the teacher 'average'")
        return self


class SmoothingSettings(Section):
    """Correct & Smooth after a model: first its errors on training rows spread, then what it says and their labels."""

    correct_alpha: float = Field(default=0.8, ge=0, lt=1, description="α of correct: how far errors spread")
    correct_steps: int = Field(default=50, ge=0, le=1000, description="steps of correct; 0: leave it out")
    smooth_alpha: float = Field(default=0.8, ge=0, lt=1, description="α of smooth: how far predictions spread")
    smooth_steps: int = Field(default=50, ge=0, le=1000, description="steps of smooth; 0: leave it out")
    autoscale: bool = Field(
        default=True, description="errors as large as the training rows' mean; false: as they spread, times scale"
    )
    scale: float = Field(default=1.0, ge=0, description="of spread errors, where autoscale is false")
    r: float = Field(default=0.5, ge=0, le=1, description="Â = D^(r-1) A D^(-r), without self-loops")
