"""Several hosts on one machine: network namespaces, joined by a bridge.

Each host has its own network card, address and ports; what they send to each
other crosses the bridge. A cable can be cut. This takes Linux, ``ip`` and the
rights of an administrator.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

#: The network of the hosts; the last number is that of the host.
_NETWORK = "10.213.77"


class Hosts:
    """Hosts that can reach each other. Use :func:`make_hosts`."""

    def __init__(self, count: int):
        self.count = count
        self._mark = f"{os.getpid() % 100000}"

    def _bridge(self) -> str:
        return f"lcb{self._mark}"

    def _space(self, host: int) -> str:
        return f"lch{self._mark}-{host}"

    def _outer(self, host: int) -> str:
        """Name the end of a host's cable at the bridge."""
        return f"lcv{self._mark}-{host}"

    def card(self, host: int) -> str:
        """Name the network card of a host."""
        return f"lce{self._mark}-{host}"

    def address(self, host: int) -> str:
        """Give the address of a host."""
        return f"{_NETWORK}.{host + 1}"

    def _build(self) -> None:
        _ip("link", "add", self._bridge(), "type", "bridge")
        _ip("link", "set", self._bridge(), "up")
        for host in range(self.count):
            space, card = self._space(host), self.card(host)
            outer = self._outer(host)
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", card)
            _ip("link", "set", card, "netns", space)
            _ip("link", "set", outer, "master", self._bridge())
            _ip("link", "set", outer, "up")
            inside = ("-n", space)
            address = f"{self.address(host)}/24"
            _ip(*inside, "addr", "add", address, "dev", card)
            _ip(*inside, "link", "set", card, "up")
            _ip(*inside, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for host in range(self.count):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self._space(host))
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge())

    def start(
        self, host: int, command: Sequence[str], **options: Any
    ) -> subprocess.Popen:
        """Start a program on a host."""
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": self.card(host)}
        return subprocess.Popen(
            ["ip", "netns", "exec", self._space(host), *command],
            env=environment, **options,
        )  # fmt: skip

    def torchrun(
        self,
        host: int,
        ranks: int,
        command: Sequence[str],
        restarts: int = 0,
        port: int = 29517,
        **options: Any,
    ) -> subprocess.Popen:
        """Start torchrun with so many ranks on a host; all hosts have to."""
        endpoint = f"{self.address(0)}:{port}"
        flags = {
            "nnodes": self.count,
            "nproc-per-node": ranks,
            "rdzv-backend": "c10d",
            "rdzv-endpoint": endpoint,
            "rdzv-id": self._mark,
            "rdzv-conf": f"is_host={int(host == 0)}",
            "local-addr": self.address(host),
            "max-restarts": restarts,
        }
        call = [sys.executable, "-m", "torch.distributed.run"]
        call += [f"--{name}={value}" for name, value in flags.items()]
        return self.start(host, [*call, *command], **options)

    def cut(self, host: int) -> None:
        """Cut the cable of a host."""
        _ip("link", "set", self._outer(host), "down")

    def mend(self, host: int) -> None:
        """Mend the cable of a host."""
        _ip("link", "set", self._outer(host), "up")

    def sent_bytes(self, host: int) -> int:
        """Count what the card of a host has sent, headers included."""
        statistics = Path("/sys/class/net", self._outer(host), "statistics")
        return int((statistics / "rx_bytes").read_text())


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def why_no_hosts() -> str | None:
    """Say why hosts can't be made here; None if they can."""
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        return "no ip command: network namespaces need Linux and iproute2"
    try:
        with make_hosts(1):
            return None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode().strip() or "not allowed"
        return f"network namespaces can't be made: {reason}"


@contextlib.contextmanager
def make_hosts(count: int) -> Iterator[Hosts]:
    """Make hosts, and remove them at the end."""
    hosts = Hosts(count)
    try:
        hosts._build()
        yield hosts
    finally:
        hosts._remove()
