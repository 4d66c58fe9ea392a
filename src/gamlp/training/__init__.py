"""Training: rows of hops as batches, one loop, scores, saved models, run folders; alone or in several processes."""

# Rows of hops, a batch at a time
# Graphs of several types
from gamlp.training.as_of import by_time, resolve_as_of
from gamlp.training.batches import READ_BYTES, ROW_NUMBERS, Batch, Batches, HopRows, read_batches, target_tensor

# Trained models as one: what each says of validation rows, how much it weighs
from gamlp.training.blending import (
    MOST_HELD_ROWS,
    Answers,
    Said,
    blend_words,
    blended,
    fitted_of,
    mixed,
    picks,
    probabilities_of,
    some_rows,
    told,
)

# A trained model as it is saved
from gamlp.training.bundle import Bundle, best_seed, make_model

# Probabilities that mean what they say
from gamlp.training.calibration import Calibration, calibrate, fit_temperature

# A copy of all weights and buffers of a model
from gamlp.training.checkpoint import TrainingState, weights_of

# What fits together and what does not
from gamlp.training.checks import (
    check_fits,
    check_made,
    check_same_width,
    check_store,
    check_targets,
    check_trainable,
    check_unheard,
    check_width,
    resolve_unlabelled,
    valid_rows,
    width_of,
    with_classes,
)

# Another graph's features by the names of their columns
from gamlp.training.columns import matched, with_columns

# Scores of rows
from gamlp.training.counts import ScoreCounts, score_of
from gamlp.training.device import choose_device
from gamlp.training.label_counts import LabelCounts, class_counts

# Scores as counts of every distinct one, which are merged
from gamlp.training.levels import RankedScores, levels_for, merge_ranked, state_of_ranked

# The loop
from gamlp.training.loop import Fitted, Machine, Observe, fit

# What validation goes by
from gamlp.training.metrics import (
    average_precision,
    best_of,
    best_threshold,
    better,
    judged,
    measure_of,
    metric_value,
    metric_words,
    ranked,
    rarer_class,
    resolve_metric,
    roc_auc,
)

# Several processes: how they meet, the job they share, who starts them, the code they are sent
from gamlp.training.ranks.job import GO_ON, TrainingJob, read_result, run_job, shared_job
from gamlp.training.ranks.launch import LOOK, RETRIES, Follower, Result, clear, died, launch_processes
from gamlp.training.ranks.sources import Sources, sources_of, unpacked
from gamlp.training.ranks.world import ALONE, LOOPBACK, Meeting, World

# What was said and what came true
from gamlp.training.reliability import (
    Reliability,
    calibration_error,
    reliability_of,
    reliability_of_levels,
    said_and_true,
)

# What a recipe reads of a store
from gamlp.training.rows import (
    Prepared,
    from_store,
    kept_columns,
    kept_statistics,
    plan_of,
    role_rows,
    rows_of,
    shape_of,
    to_train_on,
    without_crossfit,
    without_folds,
)

# Where a run lives
from gamlp.training.run_folder import METHOD_RUN, PREDICTIONS, STAGES, About, Origin, RunFolder, run_here, writing_run
from gamlp.training.scores import (
    MOST_KEPT,
    RowScores,
    Watch,
    full_report,
    logits_of,
    report_of,
    summary,
    to_probabilities,
)

# Every seed of a recipe
from gamlp.training.seeds import (
    NoFolder,
    SeedFiles,
    SeedFolder,
    bundle_of,
    fit_blend,
    fit_prepared,
    metric_of,
    train_seeds,
)

# Bundles in other processes
from gamlp.training.sent_bundles import SentBundles, bytes_of, loaded

# Stages, each taught by the one before
from gamlp.training.stages import HOPS, StageEnd, Stages, StageStart, in_stage, mean_valid, run_stages, teach
from gamlp.training.teacher import with_said

# TensorBoard and MLflow
from gamlp.training.trackers import tracked_run, trackers_for

# The same answer for every node
from gamlp.training.trivial import trivial_scores, trivial_scores_of
from gamlp.training.typed import expected_shape, prepare_graph, reduced_from, resolve_relations, with_features

# Weights to start from
from gamlp.training.warm import check_warm, warm_bundle

__all__ = [
    "ALONE",
    "GO_ON",
    "HOPS",
    "LOOK",
    "LOOPBACK",
    "METHOD_RUN",
    "MOST_HELD_ROWS",
    "MOST_KEPT",
    "PREDICTIONS",
    "READ_BYTES",
    "RETRIES",
    "ROW_NUMBERS",
    "STAGES",
    "About",
    "Answers",
    "Batch",
    "Batches",
    "Bundle",
    "Calibration",
    "Fitted",
    "Follower",
    "HopRows",
    "LabelCounts",
    "Machine",
    "Meeting",
    "NoFolder",
    "Observe",
    "Origin",
    "Prepared",
    "RankedScores",
    "Reliability",
    "Result",
    "RowScores",
    "RunFolder",
    "Said",
    "ScoreCounts",
    "SeedFiles",
    "SeedFolder",
    "SentBundles",
    "Sources",
    "StageEnd",
    "StageStart",
    "Stages",
    "TrainingJob",
    "TrainingState",
    "Watch",
    "World",
    "average_precision",
    "best_of",
    "best_seed",
    "best_threshold",
    "better",
    "blend_words",
    "blended",
    "bundle_of",
    "by_time",
    "bytes_of",
    "calibrate",
    "calibration_error",
    "check_fits",
    "check_made",
    "check_same_width",
    "check_store",
    "check_targets",
    "check_trainable",
    "check_unheard",
    "check_warm",
    "check_width",
    "choose_device",
    "class_counts",
    "clear",
    "died",
    "expected_shape",
    "fit",
    "fit_blend",
    "fit_prepared",
    "fit_temperature",
    "fitted_of",
    "from_store",
    "full_report",
    "in_stage",
    "judged",
    "kept_columns",
    "kept_statistics",
    "launch_processes",
    "levels_for",
    "loaded",
    "logits_of",
    "make_model",
    "matched",
    "mean_valid",
    "measure_of",
    "merge_ranked",
    "metric_of",
    "metric_value",
    "metric_words",
    "mixed",
    "picks",
    "plan_of",
    "prepare_graph",
    "probabilities_of",
    "ranked",
    "rarer_class",
    "read_batches",
    "read_result",
    "reduced_from",
    "reliability_of",
    "reliability_of_levels",
    "report_of",
    "resolve_as_of",
    "resolve_metric",
    "resolve_relations",
    "resolve_unlabelled",
    "roc_auc",
    "role_rows",
    "rows_of",
    "run_here",
    "run_job",
    "run_stages",
    "said_and_true",
    "score_of",
    "shape_of",
    "shared_job",
    "some_rows",
    "sources_of",
    "state_of_ranked",
    "summary",
    "target_tensor",
    "teach",
    "to_probabilities",
    "to_train_on",
    "told",
    "tracked_run",
    "trackers_for",
    "train_seeds",
    "trivial_scores",
    "trivial_scores_of",
    "unpacked",
    "valid_rows",
    "warm_bundle",
    "weights_of",
    "width_of",
    "with_classes",
    "with_columns",
    "with_features",
    "with_said",
    "without_crossfit",
    "without_folds",
    "writing_run",
]
