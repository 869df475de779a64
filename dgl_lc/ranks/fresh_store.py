"""A part of a store that no earlier start of the ranks has written to.

``torchrun`` keeps one store for all its restarts. What a rank that was killed
wrote there, such as its address, would be taken for that of its successor.
"""

import hashlib
import time
import uuid

import torch.distributed as dist
from dgl import DGLError


def fresh_store(
    store: dist.Store, rank: int, size: int, seconds: float = 600.0
) -> dist.Store:
    """Agree with all ranks on a part of the store that is new.

    Each process writes a random text. The name of the part is made of those
    of all ranks; a rank is done when all ranks have read the same texts, and
    hence also its own, which no earlier process can have read.

    Parameters
    ----------
    store : Store
        The store, which all ranks reach.
    rank, size : int
        The number of this process, and of all.
    seconds : float, optional
        How long to wait for other ranks. Default: ten minutes.
    """
    shared = dist.PrefixStore("dgl_lc start", store)
    _write(shared, f"text/{rank}", uuid.uuid4().hex)
    end = time.monotonic() + seconds
    pause, late = 0.005, list(range(size))
    while time.monotonic() < end:
        texts = [_read(shared, f"text/{other}") for other in range(size)]
        late = [other for other, text in enumerate(texts) if text is None]
        if not late:
            name = hashlib.sha256(" ".join(map(str, texts)).encode())
            _write(shared, f"name/{rank}", name.hexdigest())
            names = [_read(shared, f"name/{other}") for other in range(size)]
            if set(names) == {name.hexdigest()}:
                return dist.PrefixStore(name.hexdigest(), store)
            late = [o for o, n in enumerate(names) if n != name.hexdigest()]
        time.sleep(pause)
        pause = min(0.2, 1.5 * pause)
    raise DGLError(
        f"ranks {', '.join(map(str, late))} of {size} have not started within "
        f"{seconds:.0f} s: start all of them, or look for their errors."
    )


def _write(store: dist.Store, key: str, value: str) -> None:
    store.set(key, value)
    store.add(f"{key}/there", 1)


def _read(store: dist.Store, key: str) -> str | None:
    """Read a value, without waiting for it."""
    # Not every store of torch 2.2 has check().
    return store.get(key).decode() if store.add(f"{key}/there", 0) else None
