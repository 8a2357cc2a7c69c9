"""Permits of an event loop: whom they go to, how long one waits, what a cancellation does."""

from __future__ import annotations

import asyncio
import time

import pytest

from endcap.client.shared_memory.permits import Permits


def test_permits_go_to_who_waits_in_the_order_of_asking() -> None:
    async def run() -> list[int]:
        permits = Permits(1)
        served = []

        async def ask(number: int) -> None:
            assert await permits.acquire(5)
            served.append(number)

        assert await permits.acquire(5)
        asking = [asyncio.create_task(ask(number)) for number in range(3)]
        await asyncio.sleep(0)
        for _ in asking:
            permits.release()
        await asyncio.gather(*asking)
        return served

    assert asyncio.run(run()) == [0, 1, 2]


def test_who_waits_too_long_is_told_and_takes_none() -> None:
    async def run() -> None:
        permits = Permits(1)
        assert await permits.acquire(0)
        begin = time.monotonic()
        assert not await permits.acquire(0.05)
        assert not await permits.acquire(-1)
        assert 0.04 < time.monotonic() - begin < 1
        permits.release()
        assert await permits.acquire(0)

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_in_the_instant_of_a_permit_is_not_lost(turns: int) -> None:
    async def run() -> None:
        permits = Permits(1)
        assert await permits.acquire(5)

        async def hold() -> None:
            assert await permits.acquire(5)
            try:
                await asyncio.sleep(20)
            finally:
                permits.release()

        waiting = asyncio.create_task(hold())
        await asyncio.sleep(0)
        permits.release()
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await permits.acquire(0)  # it came back

    asyncio.run(run())
