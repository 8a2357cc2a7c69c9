"""Has a connection, of either kind, make the queries of a script."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from endcap.client.errors import RequestError
from endcap.client.served_model import Query

if TYPE_CHECKING:
    from endcap.client.aio_connection import AsyncConnection
    from endcap.client.connection import Connection

T = TypeVar("T")


def run_queries(connection: Connection, script: Generator[Query, Any, T]) -> T:
    """Returns what the script returns."""
    try:
        query = next(script)
        while True:
            try:
                answer = query(connection)
            except RequestError as error:
                query = script.throw(error)
            else:
                query = script.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_queries_async(connection: AsyncConnection, script: Generator[Query, Any, T]) -> T:
    """Returns what the script returns."""
    try:
        query = next(script)
        while True:
            try:
                answer = await query(connection)
            except RequestError as error:
                query = script.throw(error)
            else:
                query = script.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
