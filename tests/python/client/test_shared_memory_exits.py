"""SIGTERM as the end of a program: at once, deferred, in finalisers, and in event loops."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import asyncio, contextlib, gc, os, signal, time, weakref
from endcap.client.regions.sigterm import exit_on_sigterm, defer_sigterm

exit_on_sigterm()

def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.01)

def tell(*words):
    print(*words, flush=True)
"""

ENDS = {
    "at once": ("terminate()\ntell('lives')", ""),
    "after a block": (
        "with defer_sigterm():\n    terminate()\n    tell('in')\ntell('lives')",
        "in",
    ),
    "after the outer block": (
        "with defer_sigterm():\n"
        "    with defer_sigterm():\n"
        "        terminate()\n"
        "    tell('in')\n"
        "tell('lives')",
        "in",
    ),
    "after the last of two blocks that overlap": (
        "first, second = defer_sigterm(), defer_sigterm()\n"
        "first.__enter__()\n"
        "second.__enter__()\n"
        "first.__exit__(None, None, None)\n"
        "terminate()\n"
        "tell('in')\n"
        "second.__exit__(None, None, None)\n"
        "tell('lives')",
        "in",
    ),
    "after a block that fails": (
        "with contextlib.suppress(KeyError), defer_sigterm():\n"
        "    terminate()\n"
        "    raise KeyError\n"
        "tell('lives')",
        "",
    ),
    "after a finaliser": (
        "class Thing:\n"
        "    pass\n"
        "def finalise():\n"
        "    with defer_sigterm('send again'):\n"
        "        terminate()\n"
        "    tell('finalised')\n"
        "thing = Thing()\n"
        "weakref.finalize(thing, finalise)\n"
        "del thing\n"
        "time.sleep(5)\n"
        "tell('lives')",
        "finalised",
    ),
}


def run(text: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + text], capture_output=True, text=True, timeout=20
    )
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.parametrize("end", ENDS)
def test_sigterm_ends_a_program_once_it_may(end: str) -> None:
    text, printed = ENDS[end]
    assert run(text) == (143, printed, "")


def test_sigterm_at_the_end_of_a_program_changes_nothing() -> None:
    assert run("with defer_sigterm('nothing'):\n    terminate()\ntell('end')") == (0, "end", "")


def test_an_event_loop_ends_as_a_whole_and_prints_no_traceback() -> None:
    text = """
async def work(number):
    try:
        while True:
            sum(range(100))
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        tell("cancelled")
        raise

async def main():
    asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
    await asyncio.gather(*(work(number) for number in range(3)))

asyncio.run(main())
"""
    assert run(text) == (143, "cancelled\ncancelled\ncancelled", "")


def test_a_task_is_not_broken_off_between_two_awaits() -> None:
    text = """
async def main():
    terminate()
    tell("goes on")
    await asyncio.sleep(5)
    tell("lives")

asyncio.run(main())
"""
    assert run(text) == (143, "goes on", "")
