"""Functions that a model calls inside ``with torch.autocast(…)``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class InAutocast:
    """A function that casts its arguments as autocast does.

    Attributes
    ----------
    function : callable
        Function that the model calls.
    device_type : str
        Type of the devices that autocast is on for, such as "cpu".
    dtype : torch.dtype
        Type that autocast casts to.
    """

    function: Callable
    device_type: str
    dtype: torch.dtype

    @property
    def __name__(self) -> str:
        name = getattr(self.function, "__name__", str(self.function))
        if name == "__get__":
            # It reads a property of a tensor.
            owner: Any = getattr(self.function, "__self__", None)
            return owner.__name__
        return name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(
            self.device_type, dtype=self.dtype, cache_enabled=False
        ):
            return self.function(*args, **kwargs)


def active_autocast(tensors: list[torch.Tensor]) -> tuple[str, Any] | None:
    """Return the device type and the type of autocast, if it is on."""
    kind = tensors[0].device.type if tensors else "cpu"
    if hasattr(torch, "get_autocast_dtype"):
        if not torch.is_autocast_enabled(kind):
            return None
        return kind, torch.get_autocast_dtype(kind)
    # torch before 2.4 has a function for each type of device.
    if kind == "cpu" and torch.is_autocast_cpu_enabled():
        return kind, torch.get_autocast_cpu_dtype()
    if kind == "cuda" and torch.is_autocast_enabled():
        return kind, torch.get_autocast_gpu_dtype()
    return None
