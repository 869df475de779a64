"""Training on hop features: batches, fitting, predicting, files."""

from .fit import fit
from .history import Fit
from .loader import HopLoader
from .predict import predict
from .saved_model import load_model, save_model
from .write_predictions import write_predictions

__all__ = [
    "HopLoader",
    "fit",
    "Fit",
    "predict",
    "write_predictions",
    "save_model",
    "load_model",
]
