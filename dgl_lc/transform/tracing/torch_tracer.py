"""A tracer that records every torch function and module a model calls.

The model itself runs, on real tensors: a torch function mode sees each call.
Message passing is seen by :mod:`dgl_lc.transform.tracing.dgl_hooks`.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...nn.dropout import Dropout
from .. import causes
from .call_spelling import one_spelling
from .followed_numbers import is_followed, plain
from .recorder import Recorder, hidden, shape_of
from .values import Guard, Value, leaves, replace, values_in

#: Functions whose result is neither a tensor nor a size of the graph.
_METADATA = frozenset({
    "dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous",
    "get_device", "element_size", "data_ptr", "stride", "storage_offset",
    "untyped_storage", "requires_grad_", "retain_grad",
    "__hash__", "__repr__", "__format__", "__str__", "_is_view", "is_pinned",
    "is_signed", "is_inference", "is_shared", "has_names", "is_same_size",
    "result_type", "is_tensor", "is_storage", "can_cast", "promote_types",
    "is_grad_enabled", "get_default_dtype", "manual_seed",
    "broadcast_shapes", "set_grad_enabled", "__set__", "__dlpack__",
    "__dlpack_device__", "share_memory_", "finfo", "iinfo", "is_coalesced",
})  # fmt: skip
#: Properties that are tensors; all others are metadata.
_TENSOR_PROPERTIES = frozenset({
    "T", "mT", "H", "mH", "data", "real", "imag",
})  # fmt: skip
#: Functions that cut a tensor into pieces along a dimension.
_CUTS = frozenset({
    "split", "split_with_sizes", "chunk", "tensor_split", "vsplit", "unbind",
    "narrow",
})  # fmt: skip
#: Functions whose effect would be lost without notice.
_HOOKS = frozenset({
    "register_hook", "register_post_accumulate_grad_hook",
})  # fmt: skip
#: Functions that turn tensors into Python numbers.
_TO_NUMBER = frozenset({
    "item", "__bool__", "__int__", "__float__", "__index__", "is_nonzero",
    "equal", "allclose", "numel", "nelement", "__contains__",
})  # fmt: skip
#: Functions that take values out of torch.
_LEAVES_TORCH = frozenset({"numpy", "tolist", "__array__", "__iter__"})
#: Functions that may return their argument itself.
_NO_OPS = frozenset({
    "to", "type", "type_as", "contiguous", "float", "double", "half", "long",
    "int", "cpu", "cuda", "bfloat16", "bool", "requires_grad_",
})  # fmt: skip


class TorchTracer(Recorder, TorchFunctionMode):
    """Records the torch functions and modules that a model calls.

    Parameters
    ----------
    model : nn.Module
        A copy of the user's model: tracing may change it.
    num_nodes : int
        Number of nodes of the probe.
    split_bias : bool
        Whether a linear layer is recorded as a product and a sum.
    ignore_edge_dropout : bool
        Whether dropout on values of edges is ignored.
    """

    def __init__(
        self,
        model: nn.Module,
        num_nodes: int,
        split_bias: bool = False,
        ignore_edge_dropout: bool = False,
    ) -> None:
        Recorder.__init__(self, model, num_nodes)
        TorchFunctionMode.__init__(self)
        self._model = model
        self._split_bias = split_bias
        self._ignore_edge_dropout = ignore_edge_dropout
        self.failed_in = ""
        self._names = {id(m): name for name, m in model.named_modules()}

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (),
        kwargs: dict | None = None,
    ) -> Any:  # fmt: skip
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            prop = getattr(getattr(func, "__self__", None), "__name__", "")
            if prop == "shape":
                return torch.Size(map(self.number, args[0].shape))
            if prop not in _TENSOR_PROPERTIES:
                return func(*args, **kwargs)
            if prop == "data":
                name, func = "detach", torch.Tensor.detach
        if name in _METADATA:
            return func(*args, **kwargs)
        if name == "new_tensor" and not values_in(self.lift(args[1:])):
            # The result is a constant: only the type is taken from the tensor.
            return func(*args, **kwargs)
        if name == "size":
            found = func(*args, **kwargs)
            if isinstance(found, int):
                return self.number(found)
            return torch.Size(map(self.number, found))
        if name == "__len__":
            return self._len(func(*args, **kwargs))
        if name in _TO_NUMBER:
            return self._to_number(func, name, args, kwargs)
        if name in _LEAVES_TORCH:
            return self._leave_torch(func, name, args, kwargs)
        return self._call(func, name, args, kwargs)

    def _to_number(
        self, function: Callable, name: str, args: tuple, kwargs: dict
    ) -> Any:
        """Turn a tensor into a number that is followed if it has to be."""
        lifted = self.lift(args), self.lift(kwargs)
        used = values_in(lifted)
        if name not in ("numel", "nelement"):
            if any(v.learned or v.random for v in used):
                self.refuse(
                    causes.LEARNED_BRANCH,
                    name,
                    "turns a learned or random value into a Python number, "
                    "and the LC version would keep the number of a probe",
                    "Compute with tensors (torch.where, masks)",
                )
        elif isinstance(args[0], torch.Tensor):
            sizes = [self.number(size) for size in shape_of(args[0])]
            total = self.number(1)
            for size in sizes:
                total = total * size
            return total
        result = function(*args, **kwargs)
        if not any(v.data for v in used):
            return result
        value = self.add("call", function, *lifted, example=result)
        if isinstance(result, bool):
            self.trace.guards.append(Guard(value, result))
            return result
        if name in ("__int__", "__float__", "__index__"):
            # Python turns the result into a plain number.
            self.trace.guards.append(Guard(value, result, escaped=True))
            return result
        return self.follow(result, value)

    def _len(self, size: int) -> int:
        """Return the length of a tensor, or refuse a size of the graph."""
        # len() returns a plain integer: branches on it can't be noticed.
        if size in self.sizes and not _called_by_dgl():
            self.refuse(
                causes.NUMBER_OF_THE_GRAPH,
                "len() of a tensor with a row for each node or edge",
                "is a plain integer, which can't be followed",
                "Use tensor.shape[0] or g.num_nodes()",
            )
        return size

    def _leave_torch(
        self, func: Callable, name: str, args: tuple, kwargs: dict
    ) -> Any:
        """Take constants out of torch, and refuse all other values."""
        if name == "__iter__":
            # A parameter, for instance, is taken apart item by item.
            if self.lift(args[0]).data:
                self.refuse(
                    causes.SOME_ROWS,
                    "iterating over a tensor",
                    "takes it apart into the rows of single nodes",
                    "Use functions of whole tensors",
                )
            rows = range(shape_of(args[0])[0])
            pick = torch.Tensor.__getitem__
            return iter(
                [self._call(pick, "getitem", (args[0], i), {}) for i in rows]
            )
        if self.lift(args[0]).data or self.lift(args[0]).learned:
            self.refuse(
                causes.OUTSIDE_TORCH,
                name,
                "takes values out of torch, where they can't be followed",
                "Compute with torch instead",
            )
        return func(*args, **kwargs)

    def _drops_nothing(self, p: float, tensor: Any) -> bool:
        """Return whether a dropout has p = 0, or is one to ignore."""
        value = self.sizes.get(shape_of(tensor)[0] if tensor.dim() else -1)
        of_edges = value is not None and value.target != "N"
        return p == 0 or (self._ignore_edge_dropout and of_edges)

    def getitem(self, original: Callable, tensor: Any, index: Any) -> Any:
        """Record ``tensor[index]``, which old versions of torch hide."""
        with hidden():
            return self._call(original, "__getitem__", (tensor, index), {})

    def _call(
        self, func: Callable, name: str, args: tuple, kwargs: dict
    ) -> Any:
        """Call a torch function, and record it as a value."""
        if func is nn.functional.dropout:
            p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            dropped = args[0] if args else kwargs["input"]
            if self._drops_nothing(p, dropped):
                return dropped
        if func is nn.functional.linear and self._split_bias:
            bias = kwargs.get("bias", args[2] if len(args) > 2 else None)
            if bias is not None:
                rest = {k: v for k, v in kwargs.items() if k != "bias"}
                product = self._call(func, name, args[:2], rest)
                return self._call(torch.add, "add", (product, bias), {})
        if kwargs.get("out") is not None:
            self.refuse(
                causes.WRITES_IN_PLACE,
                name,
                "writes into out=",
                "Omit out= and use the result",
            )
        if name in _HOOKS:
            self.refuse(
                causes.GRADIENTS,
                name,
                "changes gradients in a way that can't be followed",
                "Scale or clip gradients in the training loop",
            )
        self._check_cut(name, args, kwargs)
        if name in ("__setitem__", "backward", "copy_", "set_"):
            self.refuse(
                causes.WRITES_IN_PLACE,
                name,
                "writes into a tensor, which can't be swapped with aggregation",
                "Compute a new tensor instead (torch.where, torch.cat)",
            )
        lifted = self.lift(args), self.lift(kwargs)
        tensor: Any = args[0] if args else None
        version = getattr(tensor, "_version", None)
        state = torch.get_rng_state()
        result = func(*_plain(args), **_plain(kwargs))
        random = not torch.equal(state, torch.get_rng_state())
        inplace = version is not None and tensor._version != version
        if inplace and lifted[0][0].op == "param":
            self.refuse(
                causes.WRITES_IN_PLACE,
                name,
                "changes a parameter in place",
                "Change parameters outside forward",
            )
        if not inplace and name in _NO_OPS and result is tensor:
            return result
        if name in ("reshape", "view") and result.shape == tensor.shape:
            self.bind(result, lifted[0][0])
            return result
        target, largs, lkwargs = one_spelling(
            self, func, name, inplace, args, kwargs, lifted
        )
        same = isinstance(result, torch.Tensor) and result is tensor
        if same and not inplace:
            # Dropout in evaluation returns its argument, but is a value
            # of its own.
            result = result.view(result.shape)
        value = self.add("call", target, largs, lkwargs, result, random=random)
        self.bind_result(result, self._without_gradient(value))
        return result

    def _check_cut(self, name: str, args: tuple, kwargs: dict) -> None:
        """Refuse pieces of the nodes, whose number depends on the graph."""
        if not args or not isinstance(args[0], torch.Tensor):
            return
        shape = shape_of(args[0])
        dim = None
        if name in _CUTS:
            place = 1 if name in ("unbind", "narrow") else 2
            given = args[place] if len(args) > place else 0
            dim = kwargs.get("dim", given)
        elif name in ("__getitem__", "getitem"):
            index = args[1] if isinstance(args[1], tuple) else args[1:2]
            part = index[0] if index else None
            ends = (part.start, part.stop) if isinstance(part, slice) else ()
            if any(end is not None and not is_followed(end) for end in ends):
                dim = 0
        if dim is not None and shape and shape[dim] in self.sizes:
            self.refuse(
                causes.SOME_ROWS,
                name,
                "takes some of the rows, at places that do not depend on the "
                "graph",
                "Use all rows: the LC version saves memory by mini-batches",
            )

    def _without_gradient(self, value: Value) -> Value:
        """Record a detach for what is computed under no_grad."""
        tensor = isinstance(value.example, torch.Tensor)
        if torch.is_grad_enabled() or not value.learned or not tensor:
            return value
        detach = torch.Tensor.detach
        return self.add("call", detach, (value,), {}, value.example)

    # Modules

    def call_module(
        self, original: Callable, module: nn.Module, args: tuple, kwargs: dict
    ) -> Any:
        """Call a module, and record those of torch.nn as one value."""
        name = self._names.get(id(module))
        if name is None:
            return original(module, *args, **kwargs)
        kind = type(module)
        leaf = (
            (kind.__module__.startswith("torch.nn") or kind is Dropout)
            and module is not self._model
            and not (self._split_bias and isinstance(module, nn.Linear))
            and not any(True for _ in module.children())
            and not getattr(module, "inplace", False)
            and not isinstance(module, (nn.ModuleList, nn.ModuleDict))
            and self._has_its_own(module)
        )
        self._scope.append(name)
        try:
            if not leaf:
                return original(module, *args, **kwargs)
            return self._leaf(original, module, name, args, kwargs)
        except Exception:
            self.failed_in = self.failed_in or name
            raise
        finally:
            self._scope.pop()

    def _has_its_own(self, module: nn.Module) -> bool:
        """Return whether its parameters are not swapped for this call."""
        tensors = [*module.parameters(False), *module.buffers(False)]
        return all(id(tensor) in self._params for tensor in tensors)

    def _leaf(
        self, original: Callable, module: nn.Module, name: str, args: tuple,
        kwargs: dict,
    ) -> Any:  # fmt: skip
        """Call a module of torch.nn, and record it as a value."""
        if isinstance(module, nn.Identity):
            return args[0]
        if (
            isinstance(module, nn.Dropout)
            and args
            and self._drops_nothing(module.p, args[0])
        ):
            return args[0]
        lifted = self.lift(args), self.lift(kwargs)
        state = torch.get_rng_state()
        with hidden():
            result = original(module, *args, **kwargs)
            random = not torch.equal(state, torch.get_rng_state())
            if any(result is arg for arg in leaves(args)):
                result = result.view(result.shape)
        norm = isinstance(module, nn.modules.batchnorm._NormBase)
        learned = norm or any(True for _ in module.parameters())
        value = self.add(
            "module", name, *lifted, example=result,
            learned=learned, random=random,
        )  # fmt: skip
        self.bind_result(result, self._without_gradient(value))
        return result


def _called_by_dgl() -> bool:
    """Return whether DGL, and not the model, made the call."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("torch.", "dgl_lc.transform")):
            return module.startswith("dgl.")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _plain(item: Any) -> Any:
    """Replace followed numbers by plain ones."""
    return replace(item, plain)
