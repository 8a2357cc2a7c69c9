"""Parameters of a cascade: routes of classes to classifiers, and numbers."""

from __future__ import annotations

import pytest

from endcap import InvalidArgumentError
from endcap.triton.cascade_settings import (
    CascadeSettings,
    Route,
    Routes,
    parse_routes,
    read_cascade_settings,
)

CLASSIFY = Route("preprocess_rois", "classify")
BOATS = Route("preprocess_rois", "classify_boats")


def config(**parameters: str) -> dict[str, object]:
    return {"parameters": {name: {"string_value": text} for name, text in parameters.items()}}


def test_classes_and_the_rest():
    routes = parse_routes("5=preprocess_rois+classify_boats, *=preprocess_rois+classify")
    assert routes == Routes({5: BOATS}, CLASSIFY)
    assert [routes.of(class_id) for class_id in (0, 5, 6)] == [CLASSIFY, BOATS, CLASSIFY]


def test_several_classes_share_a_route_and_others_have_none():
    routes = parse_routes(" 0 | 3 = preprocess_rois + classify ")
    assert routes == Routes({0: CLASSIFY, 3: CLASSIFY})
    assert [routes.of(class_id) for class_id in (0, 1, 3, -1)] == [CLASSIFY, None, CLASSIFY, None]


@pytest.mark.parametrize("text", ["", "  "])
def test_no_text_is_no_route(text):
    assert parse_routes(text).of(0) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0=a+b,0=a+c", "names class 0 twice; name it once"),
        ("2|2=a+b", "names class 2 twice"),
        ("00|0=a+b", "names class 0 twice"),
        ("*=a+b,*=a+b", r"names \* twice"),
        ("0=a", r"has the part '0=a'; give CLASSES=ROIS_MODEL\+CLASSIFIER"),
        ("0=a+", r"has the part '0=a\+'"),
        ("0=+b", r"has the part '0=\+b'"),
        ("0=a+b+c", r"has the part '0=a\+b\+c'"),
        ("a+b", r"has the part 'a\+b'"),
        ("0=a+b,", "has the part ''"),
        ("=a+b", "has the class '' in '=a"),
        ("ring=a+b", "has the class 'ring' in 'ring="),
        ("-1=a+b", "has the class '-1'"),
        ("1.0=a+b", "has the class '1.0'"),
        ("2147483648=a+b", "has the class '2147483648'"),
        ("0|=a+b", "has the class ''"),
    ],
)
def test_what_is_no_route_is_refused(text, said):
    with pytest.raises(InvalidArgumentError, match=f"^classifiers {said}"):
        parse_routes(text)


def test_the_defaults():
    assert read_cascade_settings({}) == CascadeSettings(
        detect_model="detect",
        classifiers=Routes({}),
        classify_threshold=0.25,
        classify_batch_size=16,
    )


def test_every_parameter():
    given = config(
        detect_model="mine",
        classifiers="*=preprocess_rois+classify",
        classify_threshold="0.5",
        classify_batch_size="4",
        labels="a,b",
        EXECUTION_ENV_PATH="env.tar.gz",
    )
    assert read_cascade_settings(given) == CascadeSettings(
        detect_model="mine",
        classifiers=Routes({}, CLASSIFY),
        classify_threshold=0.5,
        classify_batch_size=4,
    )


@pytest.mark.parametrize("text", ["0", "1", "0.0", "1e-3"])
def test_thresholds_that_are_possible(text):
    assert read_cascade_settings(config(classify_threshold=text)).classify_threshold == float(text)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            {"treshold": "0.5"},
            "'treshold' is not a parameter of this model: there are detect_model",
        ),
        ({"detect_model": ""}, "detect_model is empty"),
        ({"classify_threshold": "1.5"}, "classify_threshold is '1.5'; give a number from 0 to 1"),
        ({"classify_threshold": "-0.1"}, "classify_threshold is '-0.1'"),
        ({"classify_threshold": "nan"}, "classify_threshold is 'nan'"),
        ({"classify_threshold": "low"}, "classify_threshold is 'low'"),
        ({"classify_threshold": ""}, "classify_threshold is ''"),
        ({"classify_batch_size": "0"}, "classify_batch_size is 0; give 1 or more"),
        ({"classify_batch_size": "-1"}, "classify_batch_size is '-1'"),
        ({"classify_batch_size": "many"}, "classify_batch_size is 'many'"),
    ],
)
def test_what_cannot_be_is_refused(parameters, said):
    with pytest.raises(InvalidArgumentError, match=f"^{said}"):
        read_cascade_settings(config(**parameters))


@pytest.mark.parametrize(
    ("parameter", "text"),
    [("detect_model", "twin"), ("classifiers", "0=twin+b"), ("classifiers", "0=a+b, *=a+twin")],
)
def test_a_cascade_that_calls_itself_is_refused(parameter, text):
    given = config(**{parameter: text})
    assert read_cascade_settings({"name": "other", **given})
    with pytest.raises(InvalidArgumentError, match=f"^{parameter} names 'twin', which is this m"):
        read_cascade_settings({"name": "twin", **given})
