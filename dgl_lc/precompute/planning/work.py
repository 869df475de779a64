"""The sizes of what is to be computed: all that a plan depends on."""

from dataclasses import dataclass, replace

from ..._common.dtypes import ValueType, type_of
from ..cpu.gather import max_width


@dataclass(frozen=True)
class Work:
    """The sizes of what is to be computed: all that a plan depends on.

    Attributes
    ----------
    num_nodes, num_edges, num_feats : int
        The graph and its features.
    kind : str
        The type in which hop features are stored, such as "float32".
    hop_rows, hop_entries : tuple of int
        For hop 1, 2, …: the rows that are computed, and their edges.
    kept_rows : int
        Rows of a hop in the result.
    kept_hops : tuple of int
        The hops in the result.
    all_rows : bool
        Whether the result has every node's row: no frontier.
    shares_features : bool
        Whether the features can be read where they are.
    input_rows : int or None
        Rows of the features that are needed, where they have to be copied;
        None for all.
    input_size : int
        Bytes of a value of the features.
    num_diagonals : int
        How many diagonals the filter has.
    weighted : bool
        Whether the filter has edge weights.
    copies_weight : bool
        Whether these have to be converted.
    copies_nodes : bool
        Whether the ids of the nodes asked for have to be converted.
    owned : bool
        Whether the edges have to be sorted by destination first.
    expands : bool
        Whether one end of the edges has to be written out to read them.
    index_size : int
        Bytes of a node id in the graph.
    threads : int
        Threads that compute.
    stored : bool
        Whether the result goes to disk.
    mapped : bool
        Whether the graph is on disk, degrees included.
    self_loop : bool
        Whether the filter gives every node a self-loop.
    bucket_sorted : bool
        Whether the edges are sorted in buckets to find the frontier.
    """

    num_nodes: int
    num_edges: int
    num_feats: int
    kind: str
    hop_rows: tuple[int, ...]
    hop_entries: tuple[int, ...]
    kept_rows: int
    kept_hops: tuple[int, ...]
    all_rows: bool = True
    shares_features: bool = True
    input_rows: int | None = None
    input_size: int = 4
    num_diagonals: int = 2
    weighted: bool = False
    copies_weight: bool = False
    copies_nodes: bool = False
    owned: bool = True
    expands: bool = False
    index_size: int = 8
    threads: int = 1
    stored: bool = False
    mapped: bool = False
    self_loop: bool = True
    bucket_sorted: bool = False

    @property
    def value_type(self) -> ValueType:
        """The type in which hop features are stored."""
        return type_of(self.kind)

    @property
    def itemsize(self) -> int:
        """Bytes of a stored value."""
        return self.value_type.itemsize

    @property
    def accumulator_size(self) -> int:
        """Bytes of a sum."""
        return self.value_type.sums.itemsize

    @property
    def K(self) -> int:
        """The last hop that is computed."""
        return len(self.hop_rows)

    @property
    def feature_rows(self) -> int:
        """Rows of the features that are needed."""
        return self.num_nodes if self.input_rows is None else self.input_rows

    def on_disk(self) -> "Work":
        """Give the same work with graph, features and result on disk."""
        return replace(
            self, shares_features=False, input_size=self.itemsize,
            owned=False, expands=False, index_size=4, stored=True, mapped=True,
        )  # fmt: skip

    @property
    def result_bytes(self) -> int:
        """Bytes of the hop features that are given back, in memory."""
        if self.stored:
            return 0
        hops = len(self.kept_hops)
        if self.all_rows and self.shares_features and 0 in self.kept_hops:
            hops -= 1
        return hops * self.kept_rows * self.num_feats * self.itemsize

    def row_lists(self) -> list[int]:
        """Lengths of the lists of rows that the frontier has."""
        if self.all_rows:
            return []
        found = self.hop_rows
        if not self.shares_features and self.K:
            found = (self.feature_rows, *found)
        return [rows for rows in found if rows < self.num_nodes]

    def buffered_rows(self) -> tuple[int, int]:
        """Rows of the buffers for even and for odd hops.

        A hop that is kept at all rows is written to the result at once; the
        others alternate between two buffers.
        """
        if self.K == 0:
            # Hop 0 alone is copied to the result, or collected for the store.
            collects = self.stored and not self.shares_features
            return self.kept_rows * collects, 0
        rows = [0, 0]
        for hop in range(self.K + 1):
            if self.all_rows and hop in self.kept_hops and not self.stored:
                continue
            if hop == 0:
                needed = 0 if self.shares_features else self.feature_rows
            else:
                needed = self.hop_rows[hop - 1]
            rows[hop % 2] = max(rows[hop % 2], needed)
        return rows[0], rows[1]

    def widths(self) -> list[int]:
        """List sensible widths of a column block, widest first.

        All columns (of what the kernel takes), or rows of two cache lines
        or of one. Four lines are no faster than eight: the processor's own
        prefetching takes them for the beginning of a longer row and reads
        on. Less than a line wastes the rest of it, but may be all that fits.
        """
        widest = min(self.num_feats, max_width(self.kind))
        narrow = [size // self.itemsize for size in (128, 64, 32, 16)]
        return [widest] + [width for width in narrow if width < widest]
