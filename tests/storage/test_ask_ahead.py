"""What is asked of the disk is what will be read, and no more."""

import itertools
import os
from contextlib import closing

import numpy as np
import pytest

from dgl_lc.storage.ask_ahead import AskAhead


@pytest.fixture
def asked(monkeypatch):
    """The bytes of files that the system was asked for."""
    found = []

    def record(_, begin, size, how):
        assert how == os.POSIX_FADV_WILLNEED
        found.append((begin, begin + size))

    monkeypatch.setattr(os, "posix_fadvise", record)
    return found


def mapped(folder, count=100_000, offset=128):
    path = folder / "numbers"
    path.write_bytes(bytes(offset + 4 * count))
    return np.memmap(path, np.int32, "r", offset, (count,))


def test_the_bytes_of_the_entries_are_asked_for(tmp_path, asked):
    with closing(AskAhead(mapped(tmp_path))) as ahead:
        ahead.ask(10, 20)
    assert asked == [(168, 208)]


def test_a_part_of_a_map_begins_where_it_lies_in_the_file(tmp_path, asked):
    with closing(AskAhead(mapped(tmp_path)[1000:])) as ahead:
        ahead.ask(10, 20)
    assert asked == [(4168, 4208)]


def test_long_requests_are_cut_into_pieces_without_gaps(tmp_path, asked):
    with closing(AskAhead(mapped(tmp_path))) as ahead:
        ahead.ask(0, 100_000)
    assert len(asked) == 4
    assert (asked[0][0], asked[-1][1]) == (128, 400_128)
    for one, other in itertools.pairwise(asked):
        assert one[1] == other[0]
        assert one[1] - one[0] == 1 << 17


def test_arrays_in_memory_ask_for_nothing(asked):
    with closing(AskAhead(np.arange(10))) as ahead:
        assert not ahead.asks
        ahead.ask(0, 10)
    assert not asked


def test_a_file_that_is_gone_or_a_system_that_refuses_is_no_error(
    tmp_path, monkeypatch
):
    array = mapped(tmp_path)
    ahead = AskAhead(array)
    os.unlink(array.filename)
    with closing(AskAhead(array)) as later:
        assert not later.asks

    def refuse(*_):
        raise OSError

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    ahead.ask(0, 10)
    ahead.close()
    assert not ahead.asks


def test_systems_without_requests_open_nothing(tmp_path, monkeypatch):
    array = mapped(tmp_path)
    monkeypatch.delattr(os, "posix_fadvise")
    with closing(AskAhead(array)) as ahead:
        assert not ahead.asks
