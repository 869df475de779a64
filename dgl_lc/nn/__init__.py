"""Modules on hop features: LC versions, and models that are so by design."""

from .appnp import LCAPPNP
from .fsgnn import FSGNN
from .gcn import LCGCN
from .gprgnn import LCGPRGNN
from .graphconv import LCGraphConv
from .h2gcn import LCH2GCN
from .jknet import LCJKNet
from .mixhop import LCMixHop
from .sgc import SGC
from .sign import SIGN

__all__ = [
    "LCGraphConv",
    "LCGCN",
    "LCJKNet",
    "LCGPRGNN",
    "LCAPPNP",
    "LCMixHop",
    "LCH2GCN",
    "SGC",
    "SIGN",
    "FSGNN",
]
