"""A call that several ranks make together."""

import datetime
import time
import warnings

import pytest
import torch.distributed as dist
from dgl import DGLError

from dgl_lc.ranks import call as calls
from dgl_lc.ranks.call import RankCall, RankFailed
from dgl_lc.ranks.group import find_ranks
from dgl_lc.testing.run_ranks import RankErrors, run_ranks


def test_one_process_has_no_ranks():
    assert find_ranks() is None
    assert find_ranks(False) is None


def test_a_group_without_torch_distributed_is_an_error():
    with pytest.raises(DGLError, match="init_process_group"):
        find_ranks(object())


def _find():
    odd = dist.new_group([0])
    alone = odd if dist.get_rank() == 0 else dist.GroupMember.NON_GROUP_MEMBER
    messages = []
    for given in ("world", alone):
        try:
            found = find_ranks(given)
            messages.append(None if found is None else found.size)
        except DGLError as error:
            messages.append(str(error))
    ranks = find_ranks()
    return ranks.rank, ranks.size, ranks.backends, messages


def test_ranks_of_the_default_group():
    found = run_ranks(2, _find)
    assert [own[:3] for own in found] == [(0, 2, {"gloo"}), (1, 2, {"gloo"})]
    assert "got str" in found[0][3][0]
    assert found[0][3][1] is None
    assert "no member" in found[1][3][1]


def _gather():
    with RankCall(find_ranks(), "test") as call:
        first = call.gather(call.ranks.rank)
        second = call.gather({"a": [call.ranks.rank]})
        call.barrier("here")
        claimed = list(call.claim("blocks", 5))
    with RankCall(find_ranks(), "test") as call:
        third = call.gather("x")
    return first, second, claimed, third, len(set(call.hosts))


def test_gather_and_claims():
    found = run_ranks(3, _gather)
    for first, second, _, third, hosts in found:
        assert first == [0, 1, 2]
        assert second == [{"a": [0]}, {"a": [1]}, {"a": [2]}]
        assert third == ["x"] * 3
        assert hosts == 1
    claimed = [number for own in found for number in own[2]]
    assert sorted(claimed) == [0, 1, 2, 3, 4]


def _disagree(name):
    ranks = find_ranks()
    with RankCall(ranks, name if ranks.rank else "one") as call:
        call.agree({"K": 3 if ranks.rank < 2 else 4, "norm": "both"})


@pytest.mark.parametrize(
    ("name", "text"),
    [("one", "K is 3 on rank 0 and 4 on rank 2"), ("other", 'call is "one"')],
)
def test_different_arguments_are_an_error_on_all_ranks(name, text):
    with pytest.raises(RankErrors) as caught:
        run_ranks(3, _disagree, name)
    assert len(caught.value.errors) == 3
    for error in caught.value.errors.values():
        assert text in str(error)


def _fail(waits):
    ranks = find_ranks()
    with RankCall(ranks, "test") as call:
        if ranks.rank == 1:
            raise ValueError("no room")
        if waits:
            call.barrier("later")
        else:
            for _ in call.claim("blocks", 10**9):
                time.sleep(0.01)


@pytest.mark.parametrize("waits", [True, False])
def test_a_failure_ends_the_other_ranks(waits):
    with pytest.raises(RankErrors) as caught:
        run_ranks(3, _fail, waits)
    assert "no room" in str(caught.value.errors[1])
    for rank in (0, 2):
        error = caught.value.errors[rank]
        assert isinstance(error, RankFailed)
        assert "failed on rank 1: ValueError: no room" in str(error)


def _quick():
    calls.BEAT_SECONDS = 0.1
    calls.SILENT_SECONDS = 1.0
    calls.LATE_SECONDS = 0.3


def _silent():
    _quick()
    ranks = find_ranks()
    with RankCall(ranks, "test") as call:
        call.stage("hop 2 of columns 0 to 32")
        if ranks.rank == 1:
            call._ended.set()  # as if the process were stopped
            time.sleep(5)
        call.barrier("later")


def test_a_silent_rank_is_named_with_its_stage():
    with pytest.raises(RankErrors) as caught:
        run_ranks(2, _silent)
    text = str(caught.value.errors[0])
    assert "rank 1" in text
    assert "no sign of life" in text
    assert "hop 2 of columns 0 to 32" in text
    assert "--max-restarts" in text


def _slow():
    _quick()
    ranks = find_ranks()
    with RankCall(ranks, "test") as call:
        if ranks.rank == 1:
            time.sleep(3)
        call.barrier("later")
    return True


def test_a_slow_rank_is_waited_for():
    assert run_ranks(2, _slow) == [True, True]


def _hang():
    _quick()
    ranks = find_ranks()
    ranks.store.set_timeout(datetime.timedelta(seconds=1))
    with RankCall(ranks, "test") as call:
        call.stage("reading the features")
        if ranks.rank == 1:
            time.sleep(5)
        call.barrier("later")


def test_a_rank_without_progress_is_named():
    with pytest.raises(RankErrors) as caught:
        run_ranks(2, _hang)
    text = str(caught.value.errors[0])
    assert "rank 1" in text
    assert "makes no progress" in text
    assert "reading the features" in text


def _late():
    _quick()
    if dist.get_rank() == 1:
        time.sleep(2)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with RankCall(find_ranks(), "test"):
            pass
    return [str(warning.message) for warning in found]


def test_a_rank_that_makes_the_call_later_is_mentioned():
    first, second = run_ranks(2, _late)
    assert second == []
    assert "waits for rank 1, which has not made the call yet" in first[0]
    assert len(first) == 1
