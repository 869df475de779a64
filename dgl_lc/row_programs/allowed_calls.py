"""The functions that a step of a row program may call, by their names.

A file holds names from these lists, and nothing else is ever looked up. All
are functions of tensors that neither read files nor call what they are given.
"""

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from ..nn.dropout import dropout
from .by_training import if_training
from .in_autocast import InAutocast
from .stacked_rows import stack_words, take_words
from .typed_products import typed_product
from .written_rows import write_items, write_view

#: Functions of torch that are methods of tensors too.
_BOTH = """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr
    adjoint all amax amin aminmax angle any arccos arccosh arcsin arcsinh
    arctan arctan2 arctanh argmax argmin argsort asin asinh atan atan2 atanh
    baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_to
    ceil chunk clamp clamp_max clamp_min clip clone conj copysign cos cosh
    count_nonzero cross cummax cummin cumprod cumsum deg2rad detach diag
    diag_embed diagonal diff digamma div divide dot eq erf erfc erfinv exp
    exp2 expm1 fix flatten flip fliplr flipud float_power floor floor_divide
    fmax fmin fmod frac gather ge ger greater greater_equal gt hardshrink
    heaviside hypot i0 index_add index_copy index_fill index_put index_select
    inner isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue
    ldexp le lerp less less_equal lgamma log log10 log1p log2 log_softmax
    logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or
    logical_xor logit logsumexp lt masked_fill matmul max maximum mean median
    min minimum mm moveaxis movedim msort mul multiply mv nan_to_num nanmean
    nanmedian nansum narrow ne neg negative norm not_equal outer permute
    positive pow prelu prod rad2deg ravel reciprocal relu remainder renorm
    repeat_interleave reshape resolve_conj roll rot90 round rsqrt scatter
    scatter_add scatter_reduce select sgn sigmoid sign signbit sin sinc sinh
    softmax sort split split_with_sizes sqrt square squeeze std sub subtract
    sum swapaxes swapdims t take_along_dim tan tanh tensor_split tile topk
    trace transpose tril triu true_divide trunc unbind unflatten unsqueeze var
    vdot where xlogy
"""

_TORCH = """
    alpha_dropout atleast_1d atleast_2d atleast_3d batch_norm bilinear
    block_diag broadcast_tensors cat cdist celu column_stack complex concat
    concatenate conv1d conv2d cosine_similarity dropout dstack einsum
    embedding eye feature_alpha_dropout full group_norm gru_cell hstack
    imag instance_norm layer_norm linspace lstm_cell ones
    pairwise_distance polar real rms_norm rnn_relu_cell rnn_tanh_cell
    row_stack rrelu rsub scalar_tensor selu stack std_mean tensordot
    threshold var_mean view_as_complex view_as_real vstack zeros arange
"""

_METHODS = """
    bfloat16 bool byte contiguous cpu dim double expand expand_as float half
    int long nelement new_zeros numel repeat reshape_as short size to type_as
    unfold view view_as
"""

_FUNCTIONAL = """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d
    batch_norm bilinear celu conv1d conv2d cosine_similarity dropout dropout1d
    elu embedding feature_alpha_dropout gelu glu group_norm hardshrink
    hardsigmoid hardswish hardtanh instance_norm layer_norm leaky_relu linear
    local_response_norm log_softmax logsigmoid lp_pool1d max_pool1d mish
    multi_head_attention_forward normalize one_hot pad pairwise_distance prelu
    relu relu6 rms_norm rrelu
    scaled_dot_product_attention selu sigmoid silu softmax softmin softplus
    softshrink softsign tanh tanhshrink threshold
"""

_OPERATORS = """
    abs add and_ eq floordiv ge getitem gt inv invert le lt matmul mod mul ne
    neg not_ or_ pos pow sub truediv xor
"""

_SPECIAL = "erf erfc exp2 expit expm1 log1p log_softmax logit softmax xlogy"

_LINALG = "matrix_norm norm vecdot vector_norm"

_FFT = "fft hfft ifft ihfft irfft rfft"

#: Properties of tensors that are tensors.
_PROPERTIES = "H T imag mH mT real"


def _property(tensor: torch.Tensor, name: str) -> Any:
    return getattr(tensor, name)


def _find_calls() -> Iterator[tuple[str, Callable]]:
    for prefix, owner, names in (
        ("torch", torch, _BOTH + _TORCH),
        ("tensor", torch.Tensor, _BOTH + _METHODS),
        ("functional", functional, _FUNCTIONAL),
        ("special", torch.special, _SPECIAL),
        ("linalg", torch.linalg, _LINALG),
        ("fft", torch.fft, _FFT),
        ("operator", operator, _OPERATORS),
    ):
        for name in names.split():
            # Older versions of torch lack some.
            found = getattr(owner, name, None)
            if callable(found):
                yield f"{prefix}.{name}", found
    for name in _PROPERTIES.split():
        yield f"property.{name}", partial(_property, name=name)
    for function in (
        stack_words, take_words, write_items, write_view, if_training, dropout,
        typed_product,
    ):  # fmt: skip
        yield f"rows.{function.__name__}", function


#: The functions that a step may call, by the names that files have.
CALLS: dict[str, Callable] = dict(_find_calls())

_NAMES = {function: name for name, function in reversed(CALLS.items())}

#: The types that autocast may cast to, by what is written before a name.
_AUTOCAST = {
    "autocast.float16:": torch.float16,
    "autocast.bfloat16:": torch.bfloat16,
}


def name_of_function(function: Any) -> str | None:
    """Return the name of a function, or None for one that is not allowed.

    >>> import torch
    >>> name_of_function(torch.relu), name_of_function(torch.load)
    ('torch.relu', None)
    """
    if isinstance(function, InAutocast):
        name = name_of_function(function.function)
        if name is None or function.device_type != "cpu":
            return None
        for before, dtype in _AUTOCAST.items():
            if dtype == function.dtype:
                return before + name
        return None
    try:
        return _NAMES.get(function)
    except TypeError:
        # It can't be hashed, so it is no function of torch.
        return None


def find_call(name: Any) -> Callable | None:
    """Return the function of a name, or None for one that is not allowed.

    >>> find_call("operator.add"), find_call("torch.load")
    (<built-in function add>, None)
    """
    if not isinstance(name, str):
        return None
    for before, dtype in _AUTOCAST.items():
        if name.startswith(before):
            inner = CALLS.get(name.removeprefix(before))
            return None if inner is None else InAutocast(inner, "cpu", dtype)
    return CALLS.get(name)
