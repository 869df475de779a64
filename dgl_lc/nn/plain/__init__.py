"""Modules on plain hop tensors. They need torch and DGL alone.

These are the files that can be contributed to DGL. They are therefore
written for Python 3.8 and formatted by DGL's rules, not by this project's.
"""

from .lcappnp import LCAPPNP
from .lcappnpconv import LCAPPNPConv
from .lcgcn import LCGCN
from .lcgcn2conv import LCGCN2Conv
from .lcgprgnn import LCGPRGNN
from .lcgraphconv import LCGraphConv
from .lcjknet import LCJKNet
from .lcmixhop import LCMixHop
from .lcsageconv import LCSAGEConv
from .lcsgconv import LCSGConv
from .lctagconv import LCTAGConv
from .sgc import SGC
from .sign import SIGN

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
    "SGC",
    "SIGN",
]
