"""The arguments of clients: as a signature and as one value."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from endcap.client import AsyncDetectionClient, ClientArguments, ConnectionOptions, DetectionClient
from endcap.errors import InvalidArgumentError


@pytest.mark.parametrize("client", [DetectionClient, AsyncDetectionClient])
def test_signature_and_value_have_the_same_names_types_and_defaults(client: type) -> None:
    parameters = list(inspect.signature(client).parameters.values())
    fields = [each for each in dataclasses.fields(ClientArguments) if each.init]
    signature = [(each.name, each.annotation, each.default) for each in parameters]
    assert signature == [(each.name, each.type, each.default) for each in fields]


def test_a_client_of_arguments_is_made_with_each_of_them() -> None:
    given = ClientArguments(
        url="here:1",
        protocol="http",
        model="m",
        timeout_s=3.0,
        batch=2,
        request_id="camera",
        options=ConnectionOptions(timeout_s=4.0),
    )
    fields = [each.name for each in dataclasses.fields(given) if each.init]
    values = {name: getattr(given, name) for name in fields}
    by_name, by_value = AsyncDetectionClient(**values), AsyncDetectionClient.from_arguments(given)
    assert by_name._arguments == by_value._arguments == given
    assert by_value.options.timeout_s == 4.0
    assert str(by_value.address) == "http://here:1"
    with pytest.raises(InvalidArgumentError, match="concurrency 0"):
        AsyncDetectionClient.from_arguments(dataclasses.replace(given, concurrency=0))
