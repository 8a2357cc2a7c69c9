"""Has a connection, of either kind, answer a script's questions."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from endcap.client.errors import RequestError
from endcap.client.served_model import Question

if TYPE_CHECKING:
    from endcap.client.aio_connection import AsyncConnection
    from endcap.client.connection import Connection

T = TypeVar("T")


def ask(connection: Connection, script: Generator[Question, Any, T]) -> T:
    """Returns what the script returns."""
    try:
        question = next(script)
        while True:
            try:
                answer = question(connection)
            except RequestError as error:
                question = script.throw(error)
            else:
                question = script.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def ask_async(connection: AsyncConnection, script: Generator[Question, Any, T]) -> T:
    """Returns what the script returns."""
    try:
        question = next(script)
        while True:
            try:
                answer = await question(connection)
            except RequestError as error:
                question = script.throw(error)
            else:
                question = script.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
