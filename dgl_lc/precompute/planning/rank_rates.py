"""What hosts are assumed to do in a second."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from dgl import DGLError

_BITS = {"KBIT": 1e3, "MBIT": 1e6, "GBIT": 1e9, "TBIT": 1e12}
_BYTES = {
    "": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40,
}  # fmt: skip


@dataclass(frozen=True)
class Rates:
    """What a host is assumed to do in a second. Its ranks share it.

    They are assumptions, not measurements: a plan prints them.

    Attributes
    ----------
    network : float
        Bytes that the host sends, while it receives as many.
    local : float
        Bytes that ranks of the host send to each other.
    disk : float
        Bytes read from, or written to, the disk of the graph, the features
        and the store.
    gather : float
        Bytes of cache lines that rows are gathered from.
    """

    network: float = 10e9 / 8
    local: float = 2e9
    disk: float = 1e9
    gather: float = 10e9

    def __str__(self) -> str:
        return (
            f"network {self.network * 8 / 1e9:.4g} Gbit/s, between ranks of a "
            f"host {self.local / 1e9:.4g} GB/s,\n  disk "
            f"{self.disk / 1e9:.4g} GB/s, gathering rows "
            f"{self.gather / 1e9:.4g} GB/s"
        )


def rates_with(network: Any, argument: str = "network") -> Rates:
    """Give the default rates with a network of this bandwidth, if given."""
    if network is None:
        return Rates()
    return replace(Rates(), network=parse_rate(network, argument))


def parse_rate(rate: Any, argument: str = "network") -> float:
    """Read bytes per second, such as ``1.25e9``, "10Gbit" or "1.25GB/s".

    >>> parse_rate("10Gbit")
    1250000000.0
    """
    number = math.nan
    if isinstance(rate, str):
        match = re.fullmatch(
            r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([A-Za-z]*)(/s)?\s*", rate
        )
        # "Gb" is either unit, depending on who writes it.
        if match and len(match[1]) < 30 and not match[2].endswith("b"):
            unit = match[2].upper()
            if unit in _BITS:
                number = float(match[1]) * _BITS[unit] / 8
            elif unit in _BYTES:
                number = float(match[1]) * _BYTES[unit]
    elif isinstance(rate, (int, float)) and not isinstance(rate, bool):
        number = float(min(max(rate, 0), 1 << 60))
    if not 1 <= number < 1e15:
        shown = repr(rate) if not isinstance(rate, int) else "this number"
        raise DGLError(
            f"{argument}={shown[:40]} is not a bandwidth: write for example "
            f"'10Gbit' or '1.25GB' (per second and host)."
        )
    return number
