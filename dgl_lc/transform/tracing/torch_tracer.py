"""A tracer that records every torch function and module a model calls.

The model itself runs, on real tensors: a torch function mode sees each call,
and :mod:`dgl_lc.transform.tracing.torch_rules` says what to do with it.
Message passing is seen by :mod:`dgl_lc.transform.tracing.dgl_hooks`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...nn.dropout import Dropout
from ...row_programs.in_autocast import InAutocast, active_autocast
from .. import causes
from ..refusals import LCError
from . import matrix_rules, scatter_spelling  # noqa: F401 (add rules)
from .call_spelling import one_spelling
from .recorder import Recorder, hidden, shape_of
from .torch_call import TorchCall
from .torch_rules import RECORD, apply_rules, called_by_dgl
from .values import Value, leaves, tensors_in

#: Functions that may return their argument itself.
_NO_OPS = frozenset({
    "to", "type", "type_as", "contiguous", "float", "double", "half", "long",
    "int", "cpu", "cuda", "bfloat16", "bool", "requires_grad_",
})  # fmt: skip

#: Functions that give a tensor another shape, in place.
_TURNS = frozenset({
    "t_", "transpose_", "unsqueeze_", "squeeze_", "swapaxes_", "swapdims_",
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
        self.model = model
        self.splits_bias = split_bias
        self.ignores_edge_dropout = ignore_edge_dropout
        self.failed_in = ""
        self._names = {id(m): name for name, m in model.named_modules()}

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (),
        kwargs: dict | None = None,
    ) -> Any:  # fmt: skip
        name = getattr(func, "__name__", str(func))
        return self.call(TorchCall(func, name, args, dict(kwargs or {})))

    def items(self, original: Callable, name: str, args: tuple) -> Any:
        """Record ``tensor[index]``, also on the left, which old torch hides."""
        with hidden():
            return self.call(TorchCall(original, name, args, {}))

    def length(self, item: Any) -> int:
        """Return the length of an item, followed if it is a tensor's."""
        with hidden():
            size = len(item)
        if isinstance(item, torch.Tensor) and not called_by_dgl():
            return self.shape(item)[0]
        return size

    def call(self, call: TorchCall) -> Any:
        """Do what the rules say with a call; record it if they say nothing."""
        try:
            result = apply_rules(self, call)
            return self.record(call) if result is RECORD else result
        except LCError as error:
            return self.after_refusal(
                error, call.function, call.args, call.kwargs
            )

    def record(self, call: TorchCall) -> Any:
        """Call a torch function, and record it as a value."""
        if call.name in _TURNS:
            return self._turn(call)
        lifted = self.lift(call.args), self.lift(call.kwargs)
        tensor = call.first
        sources = self.views.sources(tensor)
        version = getattr(tensor, "_version", None)
        state = torch.get_rng_state()
        result = call.run()
        random = not torch.equal(state, torch.get_rng_state())
        random = random or _has_generator(call)
        inplace = version is not None and tensor._version != version
        if not inplace and call.name in _NO_OPS and result is tensor:
            return result
        if call.name in ("reshape", "view") and result.shape == tensor.shape:
            self.bind(result, lifted[0][0])
            self.views.add(result, tensor, None)
            return result
        if inplace:
            self._check_write(call, [lifted[0][0], *(v for _, v in sources)])
        target, args, kwargs = one_spelling(self, call, inplace, lifted)
        same = isinstance(result, torch.Tensor) and result is tensor
        if same and not inplace:
            # Dropout in evaluation returns its argument, but is a value
            # of its own.
            result = result.view(result.shape)
        if not inplace and not random:
            target = self._in_autocast(call, target, result)
        made = tensor if inplace else result
        value = self.add("call", target, args, kwargs, made, random=random)
        if inplace:
            value = self._in_type_of(tensor, call, value)
        value = self.without_gradient(value)
        self.bind_result(made, value)
        if inplace:
            self.views.write(value, sources)
        else:
            self.views.add(result, tensor, target, args[1:], kwargs)
        return result

    def _in_autocast(
        self, call: TorchCall, target: Callable, result: Any
    ) -> Callable:
        """Return a function that does what autocast does, where it is on."""
        active = active_autocast(tensors_in((call.args, call.kwargs)))
        if active is None or call.name == "__get__":
            return target
        with torch.autocast(active[0], enabled=False):
            try:
                plain = tensors_in(call.run())
            except RuntimeError:
                # Without autocast, the types of its arguments do not fit.
                plain = []
        found = tensors_in(result)
        same = len(plain) == len(found) and all(
            a.dtype == b.dtype and torch.equal(a, b)
            for a, b in zip(plain, found, strict=True)
        )
        return target if same else InAutocast(target, *active)

    def _check_write(self, call: TorchCall, values: list[Value]) -> None:
        """Refuse a write into these values: a tensor, and what it is of."""
        for value in values:
            if value.op == "param":
                kind = "parameter" if value.learned else "buffer"
                self.refuse(
                    causes.WRITES_IN_PLACE,
                    call.name,
                    f"changes the {kind} {value.target} in place",
                    f"Change {kind}s outside forward, in the training loop",
                )
        detached = values[0].target is torch.Tensor.detach
        unseen = not torch.is_grad_enabled() and call.first.requires_grad
        if unseen or (detached and any(value.learned for value in values)):
            self.refuse(
                causes.WRITES_IN_PLACE,
                call.name,
                "writes into a learned tensor by .data, detach() or under "
                "no_grad, which hides the change from gradients",
                "Compute a new tensor instead (torch.where, torch.cat)",
            )

    def _in_type_of(
        self, tensor: torch.Tensor, call: TorchCall, value: Value
    ) -> Value:
        """Convert what is written into a tensor to the tensor's type."""
        others = tensors_in(call.args[1:])
        if all(
            other.dtype == tensor.dtype or not other.is_floating_point()
            for other in others
        ):
            return value
        to = torch.Tensor.to
        return self.add("call", to, (value, tensor.dtype), {}, tensor)

    def _turn(self, call: TorchCall) -> Any:
        """Record a change of a tensor's shape in place: ``h.t_()``."""
        tensor = call.args[0]
        value = self.value_of(tensor)
        self._check_write(call, [value])
        lifted = self.lift(call.args), self.lift(call.kwargs)
        function, args, kwargs = one_spelling(self, call, True, lifted)
        before, version = tensor[...], tensor._version
        call.run()
        self.bind(before, value)
        self.turned(tensor, before, version)
        self.views.turn(tensor, before, function, args[1:], kwargs)
        made = self.add("call", function, args, kwargs, tensor)
        self.bind(tensor, self.without_gradient(made))
        return tensor

    def drops_nothing(self, p: float, tensor: Any) -> bool:
        """Return whether a dropout has p = 0, or is one to ignore."""
        value = self.sizes.get(shape_of(tensor)[0] if tensor.dim() else -1)
        of_edges = value is not None and value.target != "N"
        return p == 0 or (self.ignores_edge_dropout and of_edges)

    def without_gradient(self, value: Value) -> Value:
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
            and module is not self.model
            and not (self.splits_bias and isinstance(module, nn.Linear))
            and not any(True for _ in module.children())
            and not getattr(module, "inplace", False)
            and not isinstance(module, (nn.ModuleList, nn.ModuleDict))
            and self._has_its_own(module)
            and active_autocast(tensors_in((args, kwargs))) is None
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
            and self.drops_nothing(module.p, args[0])
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
        self.bind_result(result, self.without_gradient(value))
        return result


def _has_generator(call: TorchCall) -> bool:
    """Return whether a call draws random numbers of a generator of its own."""
    return any(
        isinstance(leaf, torch.Generator)
        for leaf in leaves((call.args, call.kwargs))
    )
