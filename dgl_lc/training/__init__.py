"""Training on hop features: batches, fitting, predicting, files."""

from .checkpoint import load_model, save_model
from .epochs import Fit
from .fit import fit
from .loader import HopLoader
from .predict import predict

__all__ = ["HopLoader", "fit", "Fit", "predict", "save_model", "load_model"]
