"""Training on hop features: batches, fitting, predicting, files."""

from .epochs import Fit
from .fit import fit
from .loader import HopLoader
from .predict import predict
from .saved_model import load_model, save_model

__all__ = ["HopLoader", "fit", "Fit", "predict", "save_model", "load_model"]
