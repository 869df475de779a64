"""Modules on hop features: LC versions, and models that are so by design."""

from .appnp import LCAPPNP
from .appnpconv import LCAPPNPConv
from .fsgnn import FSGNN
from .gamlp import GAMLP
from .gcn import LCGCN
from .gcn2conv import LCGCN2Conv
from .gprgnn import LCGPRGNN
from .graphconv import LCGraphConv
from .h2gcn import LCH2GCN
from .jknet import LCJKNet
from .mixhop import LCMixHop
from .sageconv import LCSAGEConv
from .sagn import SAGN
from .sgc import SGC
from .sgconv import LCSGConv
from .sign import SIGN
from .tagconv import LCTAGConv

__all__ = [
    "LCGraphConv",
    "LCSAGEConv",
    "LCTAGConv",
    "LCSGConv",
    "LCAPPNPConv",
    "LCGCN2Conv",
    "LCGCN",
    "LCJKNet",
    "LCGPRGNN",
    "LCAPPNP",
    "LCMixHop",
    "LCH2GCN",
    "SGC",
    "SIGN",
    "FSGNN",
    "SAGN",
    "GAMLP",
]
