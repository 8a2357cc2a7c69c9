"""The queue of asynchronous streams: deadlines and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from endcap.client.aio_inbox import Inbox


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


def test_items_come_in_order_at_once_or_later() -> None:
    async def test() -> None:
        inbox: Inbox[int] = Inbox()
        inbox.put(1)
        inbox.put(2)
        asyncio.get_running_loop().call_later(0.02, inbox.put, 3)
        assert [await inbox.take(5) for _ in range(3)] == [1, 2, 3]

    run(test())


def test_nothing_in_time_is_a_timeout() -> None:
    async def test() -> None:
        inbox: Inbox[int] = Inbox()
        for wait_s in (0.02, 0.0):
            with pytest.raises(TimeoutError):
                await inbox.take(wait_s)
        inbox.put(1)
        assert await inbox.take(0) == 1

    run(test())


def test_each_of_several_takes_one() -> None:
    async def test() -> None:
        inbox: Inbox[int] = Inbox()
        tasks = [asyncio.ensure_future(inbox.take(5)) for _ in range(3)]
        await asyncio.sleep(0)
        for number in range(3):
            inbox.put(number)
        assert sorted(await asyncio.gather(*tasks)) == [0, 1, 2]

    run(test())


@pytest.mark.parametrize("turns", range(4))
def test_whoever_is_cancelled_ends_so_and_takes_nothing(turns: int) -> None:
    """However many turns of the loop after the item has come."""

    async def test() -> None:
        inbox: Inbox[int] = Inbox()

        async def take() -> None:
            taken.append(await inbox.take(5))
            await asyncio.sleep(5)

        taken: list[int] = []
        task = asyncio.ensure_future(take())
        await asyncio.sleep(0.01)
        inbox.put(1)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not taken:
            assert await inbox.take(0) == 1

    run(test())
