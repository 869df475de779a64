"""The automatic LC transformation: any DGL model, or a clear error."""

from .explain_model import lc_explain
from .lc_version import LCVersion
from .refusals import LCError
from .transform_model import lc_transform

__all__ = ["lc_explain", "lc_transform", "LCError", "LCVersion"]
