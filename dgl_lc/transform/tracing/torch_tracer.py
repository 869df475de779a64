"""Tracing: what a model computes on a probe graph, as a list of values.

The model runs as it is, on real tensors. A torch function mode sees every
torch function, :mod:`dgl_lc.transform.tracing.dgl_hooks` the few functions
through which all of DGL's message passing goes.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...nn.dropout import Dropout
from .call_spelling import one_spelling
from .followed_numbers import is_followed, plain
from .recorder import Recorder, hidden, shape_of
from .values import Guard, Value, leaves, replace, values_in

#: Questions about a tensor whose answer is no tensor and no graph's size.
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
#: What cuts a tensor into pieces, along a dimension.
_CUTS = frozenset({
    "split", "split_with_sizes", "chunk", "tensor_split", "vsplit", "unbind",
    "narrow",
})  # fmt: skip
#: Functions whose loss would go unnoticed.
_HOOKS = frozenset({
    "register_hook", "register_post_accumulate_grad_hook",
})  # fmt: skip
#: Tensors that become Python numbers.
_TO_NUMBER = frozenset({
    "item", "__bool__", "__int__", "__float__", "__index__", "is_nonzero",
    "equal", "allclose", "numel", "nelement", "__contains__",
})  # fmt: skip
#: Tensors that leave torch.
_LEAVES_TORCH = frozenset({"numpy", "tolist", "__array__", "__iter__"})
_NO_OPS = frozenset({
    "to", "type", "type_as", "contiguous", "float", "double", "half", "long",
    "int", "cpu", "cuda", "bfloat16", "bool", "requires_grad_",
})  # fmt: skip


class TorchTracer(Recorder, TorchFunctionMode):
    """Records what a model does.

    Parameters
    ----------
    model : nn.Module
        A copy of the user's model: tracing may change it.
    num_nodes : int
        Of the probe.
    split_bias : bool
        Record a linear layer as a product and a sum.
    ignore_edge_dropout : bool
        Take no notice of dropout on values of edges.
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
            # A constant; the tensor only lends its type.
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
        lifted = self.lift(args), self.lift(kwargs)
        used = values_in(lifted)
        if name not in ("numel", "nelement"):
            if any(v.learned or v.random for v in used):
                self.refuse(
                    name,
                    "turns a learned or random value into a Python number, "
                    "which a branch or a constant would keep forever",
                    "Stay with tensors (torch.where, masks)",
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
            # Python makes a plain number of it, which can't be followed.
            self.trace.guards.append(Guard(value, result, escaped=True))
            return result
        return self.follow(result, value)

    def _len(self, size: int) -> int:
        # len() always gives a plain integer: a branch on it goes unnoticed.
        if size in self.sizes and not _called_by_dgl():
            self.refuse(
                "len() of a tensor with a row for each node or edge",
                "is a number that can't be followed",
                "Use tensor.shape[0] or g.num_nodes()",
            )
        return size

    def _leave_torch(
        self, func: Callable, name: str, args: tuple, kwargs: dict
    ) -> Any:
        if name == "__iter__":
            # Rows of a parameter, for instance: an item each.
            if self.lift(args[0]).data:
                self.refuse(
                    "iterating over a tensor",
                    "gives one row, of one node, after the other",
                    "Use functions of whole tensors",
                )
            rows = range(shape_of(args[0])[0])
            pick = torch.Tensor.__getitem__
            return iter(
                [self._call(pick, "getitem", (args[0], i), {}) for i in rows]
            )
        if self.lift(args[0]).data or self.lift(args[0]).learned:
            self.refuse(
                name,
                "takes values out of torch, where they can't be followed",
                "Compute with torch instead",
            )
        return func(*args, **kwargs)

    def _drops_nothing(self, p: float, tensor: Any) -> bool:
        """Whether a dropout is none at all, or one of edges to ignore."""
        value = self.sizes.get(shape_of(tensor)[0] if tensor.dim() else -1)
        of_edges = value is not None and value.target != "N"
        return p == 0 or (self._ignore_edge_dropout and of_edges)

    def getitem(self, original: Callable, tensor: Any, index: Any) -> Any:
        """``tensor[index]``, which old versions of torch do not tell."""
        with hidden():
            return self._call(original, "__getitem__", (tensor, index), {})

    def _call(
        self, func: Callable, name: str, args: tuple, kwargs: dict
    ) -> Any:
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
            self.refuse(name, "has out=", "Leave out= away")
        if name in _HOOKS:
            self.refuse(
                name,
                "changes gradients where they can't be followed",
                "Scale or clip gradients in the training loop",
            )
        self._check_cut(name, args, kwargs)
        if name in ("__setitem__", "backward", "copy_", "set_"):
            self.refuse(
                name,
                "writes into a tensor, which can't be commuted with "
                "aggregation",
                "Write it out of place (torch.where, torch.cat)",
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
                name,
                "changes a parameter in place",
                "Change parameters outside of forward",
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
            # A value of its own all the same: dropout in evaluation.
            result = result.view(result.shape)
        value = self.add("call", target, largs, lkwargs, result, random=random)
        self.bind_result(result, self._without_gradient(value))
        return result

    def _check_cut(self, name: str, args: tuple, kwargs: dict) -> None:
        """Refuse pieces of the nodes: how many there are is the graph's."""
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
                name,
                "takes some of the rows, by numbers that do not depend on "
                "the graph",
                "Give all nodes at once; mini-batches save the memory",
            )

    def _without_gradient(self, value: Value) -> Value:
        """What is computed under no_grad has no gradient afterwards."""
        tensor = isinstance(value.example, torch.Tensor)
        if torch.is_grad_enabled() or not value.learned or not tensor:
            return value
        detach = torch.Tensor.detach
        return self.add("call", detach, (value,), {}, value.example)

    # Modules

    def call_module(
        self, original: Callable, module: nn.Module, args: tuple, kwargs: dict
    ) -> Any:
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
        """Whether its parameters are the model's, and not others for now."""
        tensors = [*module.parameters(False), *module.buffers(False)]
        return all(id(tensor) in self._params for tensor in tensors)

    def _leaf(
        self, original: Callable, module: nn.Module, name: str, args: tuple,
        kwargs: dict,
    ) -> Any:  # fmt: skip
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
    return replace(item, plain)
