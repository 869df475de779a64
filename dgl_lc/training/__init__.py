"""Training on hop features: batches, fitting, predicting, files."""

from .consistency import Consistency
from .correct_and_smooth import correct_and_smooth
from .fit import fit
from .history import Fit
from .loader import HopLoader
from .predict import predict
from .saved_model import load_model, save_model
from .self_training import self_train
from .write_predictions import write_predictions

__all__ = [
    "HopLoader",
    "fit",
    "Fit",
    "self_train",
    "Consistency",
    "predict",
    "correct_and_smooth",
    "write_predictions",
    "save_model",
    "load_model",
]
