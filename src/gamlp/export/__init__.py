"""Export: a run as ONNX, TorchScript, a torch.export program or an MLflow model, compared with the run itself."""

# A run in a format, and what was written
from gamlp.export.exporting import FORMATS, Exported, export_run

# A run as an artifact of the MLflow run that followed its training
from gamlp.export.mlflow_folder import log_model

__all__ = ["FORMATS", "Exported", "export_run", "log_model"]
