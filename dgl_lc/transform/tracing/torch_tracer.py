"""Tracing: what a model computes on a probe graph, as a list of values.

The model runs as it is, on real tensors. A torch function mode sees every
torch function, :mod:`dgl_lc.transform.tracing.dgl_hooks` the few functions
through which all of DGL's message passing goes.
"""

import operator
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...nn.dropout import Dropout
from ..refusals import refuse
from .followed_numbers import Real, Whole, is_followed, plain
from .values import Guard, Trace, Value, leaves, replace, values_in

#: Operators, however they are spelled; True: the operands are swapped.
_OPERATORS = {
    "add": (operator.add, False), "radd": (operator.add, True),
    "sub": (operator.sub, False), "rsub": (operator.sub, True),
    "mul": (operator.mul, False), "rmul": (operator.mul, True),
    "div": (operator.truediv, False), "rdiv": (operator.truediv, True),
    "truediv": (operator.truediv, False),
    "rtruediv": (operator.truediv, True),
    "subtract": (operator.sub, False), "multiply": (operator.mul, False),
    "divide": (operator.truediv, False),
    "true_divide": (operator.truediv, False),
    "pow": (operator.pow, False), "rpow": (operator.pow, True),
    "matmul": (operator.matmul, False), "rmatmul": (operator.matmul, True),
    "mm": (operator.matmul, False), "neg": (operator.neg, False),
    "negative": (operator.neg, False), "getitem": (operator.getitem, False),
    "eq": (operator.eq, False), "ne": (operator.ne, False),
    "lt": (operator.lt, False), "le": (operator.le, False),
    "gt": (operator.gt, False), "ge": (operator.ge, False),
}  # fmt: skip
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
_LIKE = {
    "zeros_like": torch.zeros, "ones_like": torch.ones,
    "empty_like": torch.zeros, "full_like": torch.full,
    "new_zeros": torch.zeros, "new_ones": torch.ones,
    "new_empty": torch.zeros, "new_full": torch.full,
}  # fmt: skip
_SHAPED_AS = {
    "expand_as": torch.Tensor.expand,
    "view_as": torch.Tensor.view,
    "reshape_as": torch.Tensor.reshape,
}


#: Functions of torch.nn.functional whose last argument is ``inplace``.
_INPLACE_LAST = frozenset({
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish",
    "hardtanh", "hardswish", "hardsigmoid", "threshold", "rrelu", "dropout",
    "alpha_dropout", "feature_alpha_dropout",
})  # fmt: skip


class TorchTracer(TorchFunctionMode):
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
    ):
        super().__init__()
        self._ignore_edge_dropout = ignore_edge_dropout
        self.trace = Trace()
        self._split_bias = split_bias
        self._known: dict[int, tuple[torch.Tensor, int, Value]] = {}
        self._same: dict[Any, Value] = {}
        self._scope: list[str] = []
        self._model = model
        self.failed_in = ""
        self._names = {id(m): name for name, m in model.named_modules()}
        self.sizes: dict[int, Value] = {}
        self.add_size(num_nodes, "N")
        named = [
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ]
        self._params = {id(p): (name, p) for name, p in reversed(named)}

    # Values

    @property
    def where(self) -> str:
        return self._scope[-1] if self._scope else ""

    def refuse(self, operation: str, reason: str, advice: str):
        refuse(self.where, operation, reason, advice)

    def add(
        self,
        op: str,
        target: Any,
        args: tuple = (),
        kwargs: dict | None = None,
        example: Any = None,
        *,
        learned: bool = False,
        random: bool = False,
        data: bool = False,
    ) -> Value:
        """A new value, or the one known to be the same."""
        kwargs = kwargs or {}
        used = values_in((args, kwargs))
        made = Value(
            len(self.trace.values), op, target, args, kwargs, self.where,
            example,
            learned or any(v.learned for v in used),
            random or any(v.random for v in used),
            data or any(v.data for v in used),
            random,
        )  # fmt: skip
        # Dropout is random in training alone, and both modes are compared.
        twice = op not in ("const", "module") and "dropout" not in made.name
        if twice and not random:
            key = (op, _key(target), _key(args), _key(kwargs))
            if key in self._same:
                return self._same[key]
            self._same[key] = made
        self.trace.values.append(made)
        return made

    def add_size(self, size: int, name: Any) -> None:
        """A size of the graph: "N", or ("E", which graph)."""
        if size not in self.sizes:
            self.sizes[size] = self.add("number", name, example=size, data=True)

    def bind(self, tensor: torch.Tensor, value: Value) -> None:
        # The tensor is kept, so that its id can't be used again.
        self._known[id(tensor)] = (tensor, tensor._version, value)

    def knows(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._known

    def lift(self, item: Any) -> Any:
        """Arguments of a call, with values for the tensors among them."""
        return replace(item, self._lift_leaf)

    def _lift_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.value_of(leaf)
        return leaf.value if is_followed(leaf) else leaf

    def value_of(self, tensor: torch.Tensor) -> Value:
        if id(tensor) in self._known:
            _, version, value = self._known[id(tensor)]
            if tensor._version != version:
                self.refuse(
                    value.name,
                    "was changed in place through another view of it",
                    "Write the change out of place",
                )
            if tensor.requires_grad and value.target is torch.Tensor.detach:
                self.refuse(
                    "a custom autograd function, or reentrant checkpointing",
                    "has a gradient of its own, which can't be followed",
                    "Write it with functions of torch, or call checkpoint "
                    "with use_reentrant=False",
                )
            return value
        if id(tensor) in self._params:
            name, _ = self._params[id(tensor)]
            learned = isinstance(tensor, nn.Parameter)
            value = self.add("param", name, example=tensor, learned=learned)
        else:
            if tensor.requires_grad:
                self.refuse(
                    f"a tensor of shape {tuple(tensor.shape)}",
                    "requires gradients, but is neither a parameter of the "
                    "model nor made by an operation that can be followed",
                    "Register it as a parameter, or use dgl.ops and torch",
                )
            kept = tensor.detach().clone()
            value = self.add("const", None, example=kept)
        self.bind(tensor, value)
        return value

    def bind_result(self, result: Any, value: Value) -> None:
        """Let the tensors of a result stand for a value and its items."""
        if isinstance(result, torch.Tensor):
            self.bind(result, value)
        elif isinstance(result, (tuple, list)):
            for place, item in enumerate(result):
                if isinstance(item, (torch.Tensor, tuple, list)):
                    part = self.add(
                        "call", operator.getitem, (value, place), {}, item
                    )
                    self.bind_result(item, part)

    # Numbers

    def number(self, size: int) -> int:
        """A size as it is, or followed if it is one of the graph's."""
        value = self.sizes.get(size)
        return size if value is None else Whole(size, value, self._record)

    def follow(self, number: Any, value: Value) -> Any:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return number
        kind = Whole if isinstance(number, int) else Real
        return kind(number, value, self._record)  # type: ignore[arg-type]

    def _record(self, function: Callable, operands: tuple, result: Any) -> Any:
        lifted = self.lift(operands)
        if isinstance(result, bool):
            same = len(lifted) == 2 and lifted[0] is lifted[1]
            if not same:
                value = self.add("call", function, lifted, {}, result)
                self.trace.guards.append(Guard(value, result))
            return result
        value = self.add("call", function, lifted, {}, result)
        if function is int:
            self.trace.guards.append(Guard(value, result, escaped=True))
            return result
        return self.follow(result, value)

    def _to_number(self, function, name, args, kwargs) -> Any:
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
            sizes = [self.number(size) for size in _shape(args[0])]
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

    # Torch functions

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            prop = getattr(func.__self__, "__name__", "")
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

    def _leave_torch(self, func, name, args, kwargs) -> Any:
        if name == "__iter__":
            # Rows of a parameter, for instance: an item each.
            if self.lift(args[0]).data:
                self.refuse(
                    "iterating over a tensor",
                    "gives one row, of one node, after the other",
                    "Use functions of whole tensors",
                )
            rows = range(_shape(args[0])[0])
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
        value = self.sizes.get(_shape(tensor)[0] if tensor.dim() else -1)
        of_edges = value is not None and value.target != "N"
        return p == 0 or (self._ignore_edge_dropout and of_edges)

    def getitem(self, original: Callable, tensor: Any, index: Any) -> Any:
        """``tensor[index]``, which old versions of torch do not tell."""
        with hidden():
            return self._call(original, "__getitem__", (tensor, index), {})

    def _call(self, func, name, args, kwargs) -> Any:
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
        target, largs, lkwargs = self._normal(
            func, name, inplace, args, kwargs, lifted
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
        shape = _shape(args[0])
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

    def _normal(self, func, name, inplace, args, kwargs, lifted):
        """The call in one spelling: operators, no in-place, no lenders."""
        largs, lkwargs = lifted
        lkwargs = {k: v for k, v in lkwargs.items() if k != "inplace"}
        functional = getattr(nn.functional, name, None) is func
        last = functional and name in _INPLACE_LAST
        if last and largs and largs[-1] is True:
            largs = (*largs[:-1], False)
        elif inplace and _is_inplace(name):
            name = name.strip("_")
            if func.__name__.startswith("__i"):
                name = name[1:]
            func = getattr(torch.Tensor, name, getattr(torch, name, None))
            if func is None:
                self.refuse(
                    f"{name}_", "writes into a tensor", "Write it out of place"
                )
        base = name.strip("_")
        tensors = bool(largs) and not lkwargs
        if base in _OPERATORS and tensors and len(largs) <= 2:
            function, swapped = _OPERATORS[base]
            return function, largs[::-1] if swapped else largs, {}
        if name in _LIKE:
            return self._factory(name, args, kwargs, largs)
        if name in _SHAPED_AS:
            shape = self.lift(tuple(map(self.number, _shape(args[1]))))
            return _SHAPED_AS[name], (largs[0], *shape), {}
        lends = len(args) > 1 and isinstance(args[1], torch.Tensor)
        if name in ("to", "type_as") and lends:
            return torch.Tensor.to, (largs[0], args[1].dtype), {}
        if name == "squeeze" and len(args) == 1 and not kwargs:
            ones = [d for d, size in enumerate(_shape(args[0])) if size == 1]
            return torch.Tensor.squeeze, (largs[0], tuple(ones)), {}
        if name == "detach":
            return torch.Tensor.detach, largs[:1], {}
        return func, largs, lkwargs

    def _factory(self, name, args, kwargs, largs):
        """``zeros_like(h)`` takes only the shape and the type of h."""
        rest = largs[1:]
        if name.endswith("_like"):
            shape = self.lift(tuple(map(self.number, _shape(args[0]))))
        elif rest and isinstance(rest[0], (tuple, list)):
            shape, rest = tuple(rest[0]), rest[1:]
        else:
            shape, rest = tuple(rest), ()
        if "size" in kwargs:
            shape = tuple(self.lift(kwargs["size"]))
        if "fill_value" in kwargs:
            rest = (kwargs["fill_value"],)
        dtype = kwargs.get("dtype") or args[0].dtype
        full = name.endswith("full") or name.startswith("full")
        return _LIKE[name], (shape, *(rest if full else ())), {"dtype": dtype}

    # Modules

    def call_module(self, original, module, args, kwargs) -> Any:
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

    def _leaf(self, original, module, name, args, kwargs) -> Any:
        if isinstance(module, nn.Identity):
            return args[0]
        drops = isinstance(module, nn.Dropout) and bool(args)
        if drops and self._drops_nothing(module.p, args[0]):
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


def _is_inplace(name: str) -> bool:
    if name.startswith("__i") and name.endswith("__"):
        return name not in ("__invert__", "__index__", "__int__", "__iter__")
    return name.endswith("_") and not name.endswith("__")


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


def _shape(tensor: torch.Tensor) -> tuple:
    with hidden():
        return tuple(tensor.shape)


def _plain(item: Any) -> Any:
    return replace(item, plain)


@contextmanager
def hidden():
    """Nothing in here is recorded."""
    with torch._C.DisableTorchFunction():
        yield


def _key(item: Any) -> Any:
    """Something hashable that tells targets and arguments apart."""
    if isinstance(item, Value):
        return ("value", item.id)
    if isinstance(item, (tuple, list)):
        return (type(item).__name__, *map(_key, item))
    if isinstance(item, dict):
        return tuple((key, _key(part)) for key, part in item.items())
    if isinstance(item, slice):
        return ("slice", _key((item.start, item.stop, item.step)))
    try:
        hash(item)
    except TypeError:
        return id(item)
    return (type(item).__name__, item)
