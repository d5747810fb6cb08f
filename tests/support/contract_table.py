"""TensorFlow Serving's contract as a table: what is asked of which tiny model, and what must come back.

One row is one request of the REST API. The messages are the substrings that TensorFlow Serving's own tests look for, or
as much of its texts as a client could rely on. `CONFIG` names the models; `make_models` builds them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny_models

MODELS = {
    "half_plus_two": (tiny_models.half_plus_two_of_examples, 123),
    "half_plus_three": (lambda folder: tiny_models.half_plus(3, folder), 7),
    "several": (tiny_models.several, 1),
    "texts": (tiny_models.texts, 1),
    "all_types": (tiny_models.all_types, 1),
    "odd_outputs": (tiny_models.odd_outputs, 1),
    "constant": (tiny_models.constant, 1),
}
# TensorFlow Serving's text format; !#$ stand for names that must be percent-encoded in a path.
CONFIG = """
model_config_list {
  config { name: "half_plus_two" base_path: "%(models)s/half_plus_two" model_platform: "tensorflow"
    version_labels { key: "some_label" value: 123 } version_labels { key: "later" value: 124 } }
  config { name: "half_plus_three" base_path: "%(models)s/half_plus_three" }
  config { name: "several" base_path: "%(models)s/several" }
  config { name: "texts" base_path: "%(models)s/texts" }
  config { name: "all_types" base_path: "%(models)s/all_types" }
  config { name: "odd_outputs" base_path: "%(models)s/odd_outputs" }
  config { name: "constant" base_path: "%(models)s/constant" }
  config { name: "a!#$&b/c" base_path: "%(models)s/half_plus_three"
    version_labels { key: "l:a b" value: 7 } }
}
"""


def make_models(folder: Path) -> Path:
    """Build the models of the table in `folder`; returns the configuration file that names them."""
    for name, (make, version) in MODELS.items():
        make(folder / name / str(version))
    file = folder / "models.config"
    file.write_text(CONFIG % {"models": folder}, encoding="utf-8")
    return file


@dataclass(frozen=True)
class Case:
    """`path` comes after /v1/models/; `body` is sent as JSON, or as it is if bytes; `answer` is the whole reply."""

    name: str
    path: str
    body: Any = None
    answer: Any = None
    status: int = 200
    error: str = ""
    method: str = "POST"


def golden(name: str, path: str, body: Any, answer: Any) -> Case:
    return Case(name, path, body, answer)


def refused(name: str, path: str, body: Any, error: str, status: int = 400, method: str = "POST") -> Case:
    return Case(name, path, body, None, status, error, method)


GOLDEN = [
    golden(name, path, body, answer)
    for path, rows in {
        "half_plus_two:predict": [
            ("rows of two values", {"instances": [[1.0, 2.0], [3.0, 4.0]]}, {"predictions": [[2.5, 3.0], [3.5, 4.0]]}),
            ("columns", {"signature_name": "serving_default", "inputs": [3.0, 4.0]}, {"outputs": [3.5, 4.0]}),
            ("a scalar column", {"inputs": 3}, {"outputs": 3.5}),
            ("named rows", {"instances": [{"x": 1}, {"x": 2}]}, {"predictions": [2.5, 3.0]}),
            ("named columns", {"inputs": {"x": [1, 2], "y": 7}}, {"outputs": [2.5, 3.0]}),
            ("unknown top keys", {"instances": [1], "more": {"a": [1]}}, {"predictions": [2.5]}),
            ("an empty signature name", {"signature_name": "", "inputs": [1]}, {"outputs": [2.5]}),
            ("what follows the document", b'{"instances": [1.0]} }}}', {"predictions": [2.5]}),
            ("UTF-8 with its mark", b'\xef\xbb\xbf{"instances": [1.0]}', {"predictions": [2.5]}),
        ],
        "half_plus_two/versions/123:predict": [
            ("a version in the path", {"instances": [1.0, 2.0]}, {"predictions": [2.5, 3.0]}),
        ],
        "half_plus_two/versions/00123:predict": [
            ("leading zeros", {"instances": [1.0]}, {"predictions": [2.5]}),
        ],
        "half_plus_two/labels/some_label:predict": [
            ("a label in the path", {"instances": [1.0, 2.0]}, {"predictions": [2.5, 3.0]}),
        ],
        "a%21%23%24%26b%2Fc/labels/l%3Aa%20b:predict": [
            ("percent-encoded names", {"instances": [2.0]}, {"predictions": [4.0]}),
        ],
        "half_plus_two:regress": [
            ("regress", {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}]}, {"results": [42]}),
            (
                "regress two",
                {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}, {"x": [20.0]}]},
                {"results": [42, 12]},
            ),
            (
                "regress with a context",
                {
                    "signature_name": "regress_x_to_y",
                    "context": {"x": 80.0, "z": "a"},
                    "examples": [{"y": 1}, {"x": 20.0}],
                },
                {"results": [42, 12]},
            ),
            (
                "features of every kind",
                {
                    "signature_name": "regress_x_to_y",
                    "examples": [
                        {"x": 80.0, "whole": [1, 2], "flags": [True, False], "text": "狗", "photo": {"b64": "/9j/4A=="}}
                    ],
                },
                {"results": [42]},
            ),
        ],
        "half_plus_two:classify": [
            (
                "classify without labels",
                {"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}]},
                {"results": [[["", 12]]]},
            ),
            (
                "classify with labels",
                {"signature_name": "classify_with_labels", "examples": [{"x": 20.0}, {"x": 0.0}]},
                {"results": [[["plus", 12], ["minus", -12]], [["plus", 2], ["minus", -2]]]},
            ),
        ],
        "texts:predict": [
            (
                "bytes out",
                {"signature_name": "as_bytes", "instances": [["hello", "world"], ["tf", "serving"]]},
                {
                    "predictions": [
                        [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}],
                        [{"b64": "dGY="}, {"b64": "c2VydmluZw=="}],
                    ]
                },
            ),
            (
                "bytes in",
                {"signature_name": "as_text", "instances": [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}]},
                {"predictions": ["hello", "world"]},
            ),
            (
                "the shape of bytes in rows",
                {"signature_name": "shape", "inputs": [[{"b64": "aGVsbG8="}], [{"b64": "d29ybGQ="}]]},
                {"outputs": [2, 1]},
            ),
            (
                "the shape of one value of bytes",
                {"signature_name": "shape", "inputs": {"bin": {"b64": "aGVsbG8="}}},
                {"outputs": []},
            ),
            (
                "text is not decoded",
                {"signature_name": "as_text", "instances": ["aGVsbG8=", "狗"]},
                {"predictions": ["aGVsbG8=", "狗"]},
            ),
            (
                "two outputs",
                {"instances": ["a", "b"]},
                {
                    "predictions": [
                        {"text": "a", "tensor_bytes": {"b64": "YQ=="}},
                        {"text": "b", "tensor_bytes": {"b64": "Yg=="}},
                    ]
                },
            ),
            (
                "web-safe base64 without padding",
                {"signature_name": "as_bytes", "inputs": {"b64": "-_8"}},
                {"outputs": {"b64": "+/8="}},
            ),
            (
                "bytes that are no text",
                {"signature_name": "as_text", "inputs": [{"b64": "//79"}]},
                {"outputs": [{"b64": "//79"}]},
            ),
        ],
        "several:predict": [
            (
                "several inputs in rows",
                {"instances": [{"a": 1.5, "b": 2}, {"b": 4, "a": 3}]},
                {"predictions": [{"sum": 3.5, "product": 3.0}, {"sum": 7.0, "product": 12.0}]},
            ),
            (
                "several inputs in columns",
                {"inputs": {"a": [1.5, 3], "b": [2, 4], "other": None}},
                {"outputs": {"sum": [3.5, 7.0], "product": [3.0, 12.0]}},
            ),
        ],
        "odd_outputs:predict": [
            (
                "numbers that strict JSON does not know are null",
                {"signature_name": "not_finite", "inputs": [1.0]},
                {"outputs": [[None, None, None, 1.0]]},
            ),
            ("no rows", {"signature_name": "empty", "instances": [1.0]}, {"predictions": []}),
            ("a scalar output in columns", {"signature_name": "scalar", "inputs": [1, 2]}, {"outputs": 3}),
        ],
        "constant:predict": [("no inputs", {"inputs": {}}, {"outputs": 42.0})],
    }.items()
    for name, body, answer in rows
]


def typed(dtype: str, sent: Any, answer: Any) -> Case:
    return golden(f"{dtype} takes {sent}"[:60], "all_types:predict", _one(dtype, sent), {"outputs": answer})


def mistyped(dtype: str, sent: Any, shown: str, kind: str, name: str = "") -> Case:
    error = f"JSON Value: {shown} Type: {kind} is not of expected type: {name or dtype}"
    return refused(f"{dtype} refuses {sent}"[:60], "all_types:predict", _one(dtype, sent), error)


def _one(dtype: str, sent: Any) -> Any:
    if isinstance(sent, bytes):
        return b'{"signature_name": "%s", "inputs": %s}' % (dtype.encode(), sent)
    return {"signature_name": dtype, "inputs": sent}


TYPES = [
    typed("float32", [1, 2.5, -3], [1.0, 2.5, -3.0]),
    typed("float32", 1435774380, 1435774336.0),
    typed("float32", b"[1e39, -1e39, NaN, Infinity, -Infinity, Inf, 1e-50]", [None, None, None, None, None, None, 0.0]),
    typed("float64", [0.1, 1e300], [0.1, 1e300]),
    typed("int8", [-128, 127], [-128, 127]),
    typed("int16", -32768, -32768),
    typed("int32", [2147483647], [2147483647]),
    typed("int64", [9223372036854775807, -9223372036854775808], [9223372036854775807, -9223372036854775808]),
    typed("uint8", [0, 255], [0, 255]),
    typed("uint32", 4294967295, 4294967295),
    typed("uint64", 18446744073709551615, 18446744073709551615),
    typed("bool", [True, False], [True, False]),
    typed("string", ["a", {"b64": "Yg=="}], ["a", "b"]),
    mistyped("float32", "x", '"x"', "String", "float"),
    mistyped("float32", "NaN", '"NaN"', "String", "float"),
    mistyped("float32", True, "true", "True", "float"),
    mistyped("float32", None, "null", "Null", "float"),
    mistyped("float32", [{"x": 1}], '{"x":1}', "Object", "float"),
    mistyped("float64", [1, False], "false", "False", "double"),
    mistyped("int32", 1.0, "1.0", "Number"),
    mistyped("int32", [1, "2"], '"2"', "String"),
    mistyped("int32", 2147483648, "2147483648", "Number"),
    mistyped("uint8", 300, "300", "Number"),
    mistyped("uint64", -1, "-1", "Number"),
    mistyped("bool", 1, "1", "Number"),
    mistyped("string", 1, "1", "Number"),
    refused("half has no JSON form", "all_types:predict", _one("half", [1.0]), "to type: half", 501),
    refused(
        "half has no JSON form in rows",
        "all_types:predict",
        {"signature_name": "half", "instances": [1.0]},
        "Failed to process element: 0 of 'instances' list. Error: UNIMPLEMENTED: Conversion of JSON Value: 1.0 to type: half",
    ),
    refused("complex64 has no JSON form", "all_types:predict", _one("complex64", [1.0]), "to type: complex64", 501),
]

ROW_1 = "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
SEVERAL = "as multiple input tensors required as per tensorinfo_map"
BODY_ERRORS = [
    refused(name, path, body, error)
    for path, rows in {
        "half_plus_two:predict": [
            ("an empty body", b"", "JSON Parse error: The document is empty"),
            ("no JSON", b"abc", "JSON Parse error: Invalid value. at offset: 0"),
            ("a missing comma", b'{"a": 1 "b": 2}', "at offset: 8"),
            (
                "very deep nesting of an ignored key",
                b'{"deep": %s1%s, "instances": [1.0]}' % (b"[" * 500000, b"]" * 500000),
                "JSON Parse error: nested deeper than 100 levels",
            ),
            ("bytes that are no UTF-8", b'{"a": "\xff"}', "JSON Parse error: Invalid encoding"),
            ("a list at the top", [1, 2], "JSON Value: [1,2] Is not object"),
            (
                "a signature name that is a number",
                {"signature_name": 5, "instances": [1]},
                "not formatted correctly. 'signature_name' key must be a string value.",
            ),
            (
                "an unknown signature",
                {"signature_name": "nope", "instances": [1]},
                'Serving signature name: "nope" not found in signature def',
            ),
            (
                "both keys",
                {"instances": [1], "inputs": [1]},
                "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
            ),
            ("neither key", {"x": 1}, "Missing 'inputs' or 'instances' key"),
            (
                "instances that are no list",
                {"instances": {"x": 1}},
                'JSON Value: {"instances":{"x":1}} Expecting \'instances\' to be an list/array',
            ),
            ("no instances", {"instances": []}, "JSON Value: {\"instances\":[]} No values in 'instances'"),
            (
                "objects, then a value",
                {"instances": [{"x": 1}, 2]},
                "Expecting object but got list at item 1 of input list",
            ),
            (
                "a value, then an object",
                {"instances": [1, {"x": 2}]},
                "Expecting value/list but got object at item 1 of input list",
            ),
            ("rows of two sizes", {"instances": [[1, 2], [1, 2, 3]]}, f"{ROW_1}Expecting tensor size: 2 but got: 3"),
            (
                "named rows of two sizes",
                {"instances": [{"x": [1, 2]}, {"x": [1, 2, 3]}]},
                "Failed to process element: 1 key: x of 'instances' list. Error: INVALID_ARGUMENT: Expecting "
                "tensor size: 2 but got: 3",
            ),
            ("rows of two shapes", {"instances": [[1], [[1]]]}, f"{ROW_1}Expecting shape [1] but got: [1,1]"),
            (
                "a longer list inside a row",
                {"inputs": [[1, 2], [1, 2, 3]]},
                "Encountered list at unexpected size: 3 at level: 1 expected size: 2",
            ),
            (
                "a deeper list inside a row",
                {"inputs": [1, [2]]},
                "Encountered list at unexpected level: 1 expected < 1",
            ),
            (
                "a value where a list should be",
                {"inputs": [[1], 2]},
                "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
            ),
            (
                "a wrong type in a row",
                {"instances": [1, "x"]},
                f'{ROW_1}JSON Value: "x" Type: String is not of expected type: float',
            ),
            (
                "an object where a number should be",
                {"inputs": [{"b64": "YQ=="}]},
                'JSON Value: {"b64":"YQ=="} Type: Object is not of expected type: float',
            ),
        ],
        "constant:predict": [
            (f"{body} for no inputs", body, "Failed to get input map for signature: serving_default")
            for body in ({"instances": [1]}, {"instances": [{"b64": "AA=="}]}, {"inputs": 5})
        ],
        "nope:predict": [
            ("no JSON for an unknown model", b"abc", "JSON Parse error: Invalid value. at offset: 0"),
        ],
        "several:predict": [
            ("bare rows for several inputs", {"instances": [1, 2]}, f"expecting list of objects {SEVERAL}"),
            ("a row of one base64 value", {"instances": [{"b64": "AA=="}]}, f"expecting list of objects {SEVERAL}"),
            ("a bare column for several inputs", {"inputs": [1, 2]}, f"expecting an object {SEVERAL}"),
            ("a column is missing", {"inputs": {"a": [1]}}, "Missing named input: b in 'inputs' object."),
            (
                "a row without an input",
                {"instances": [{"a": 1}]},
                "Failed to process element: 0 of 'instances' list. JSON object: {\"a\":1} keys must be equal to: a,b",
            ),
            (
                "a row with an unknown input",
                {"instances": [{"a": 1, "b": 2}, {"a": 1, "b": 2, "foo": 3}]},
                "Failed to process element: 1 key: foo of 'instances' list. Error: INVALID_ARGUMENT: JSON "
                "object: does not have named input: foo",
            ),
            (
                "a shape that the signature does not take",
                {"inputs": {"a": [[1]], "b": [1]}},
                'input "a": expected shape (None,), received (1, 1)',
            ),
        ],
        "texts:predict": [
            (
                "an object that is no base64",
                {"inputs": {"bin": [{"b64": "YQ==", "x": 1}]}},
                'JSON Value: {"b64":"YQ==","x":1} not formatted correctly for base64 data',
            ),
            ("base64 that is none", {"inputs": {"b64": "!!"}}, "Unable to base64 decode"),
        ],
        "odd_outputs:predict": [
            (
                "an output without rows",
                {"signature_name": "scalar", "instances": [1]},
                "Tensor name: y has no shape information ",
            ),
            (
                "outputs of two batch sizes",
                {"signature_name": "uneven", "instances": [1]},
                "Tensor name: b has inconsistent batch size: 2 expecting: 1",
            ),
            (
                "an output that JSON has no form for",
                {"signature_name": "complex_number", "inputs": [1]},
                "Failed to write JSON value for tensor type: complex64",
            ),
            (
                "a kernel's own words: no picture",
                {"signature_name": "decode_png", "inputs": "what"},
                "Unknown image file format. One of JPEG, ",
            ),
            (
                "a kernel's own words: a vector where it takes one value",
                {"signature_name": "decode_png", "instances": ["what"]},
                "`contents` must be scalar but got shape[1]",
            ),
            (
                "a list of rows for a graph of one value, with what to send",
                {"signature_name": "decode_png", "instances": ["what"]},
                'this graph takes one value: send it as {"inputs": ...}',
            ),
        ],
    }.items()
    for name, body, error in rows
]

PATH_ERRORS = [
    refused("an unknown model", "half:predict", {}, "Servable not found for request: Latest(half)", 404),
    refused("an unknown version", "half_plus_two/versions/99:predict", {}, "Specific(half_plus_two, 99)", 404),
    refused(
        "an unknown label", "half_plus_two/labels/canary:predict", {}, "Unrecognized servable version label: canary"
    ),
    refused(
        "a label whose version is not there yet", "half_plus_two/labels/later:predict", {}, "waits for version 124", 503
    ),
    refused(
        "a version beyond int64",
        "half_plus_two/versions/18446744073709551615:predict",
        {},
        "Failed to convert version: 18446744073709551615 to numeric.",
    ),
    *(
        refused(
            f"{method} {path}",
            path,
            {} if method == "POST" else None,
            f"Malformed request: {method} /v1/models",
            400,
            method,
        )
        for method, path in (
            ("POST", ""),
            ("POST", "half_plus_two"),
            ("POST", "half_plus_two/metadata"),
            ("POST", "half_plus_two:explain"),
            ("POST", "half_plus_two/version/50:predict"),
            ("POST", "half_plus_two/label/x:predict"),
            ("POST", "half_plus_two/versions/HELLO:predict"),
            ("POST", "half_plus_two/versions/50/labels/x:regress"),
            ("GET", "half_plus_two:predict"),
            ("GET", "a/b"),
            ("PUT", "half_plus_two:predict"),
            ("DELETE", "half_plus_two"),
        )
    ),
]


def example_error(name: str, examples: Any, error: str, method: str = "regress") -> Case:
    body = {"signature_name": f"{method}_x_to_y", "examples": examples}
    return refused(name, f"half_plus_two:{method}", body, error)


EXAMPLE_ERRORS = [
    refused(
        "classify without examples", "half_plus_two:classify", {}, "When method is classify, key 'examples' is expected"
    ),
    refused(
        "regress without examples", "half_plus_two:regress", {}, "When method is regress, key 'examples' is expected"
    ),
    example_error("examples that are no list", {"x": 1}, "Expecting 'examples' value to be an list/array"),
    example_error("no examples", [], "'examples' value is an empty array"),
    example_error("an example that is a list", [[1]], "Example must be JSON object but got JSON Array"),
    example_error(
        "null in a feature", [{"names": [None]}], "Feature: names has element with unexpected JSON type: Null"
    ),
    example_error(
        "a list in a feature", [{"names": [[1]]}], "Feature: names has element with unexpected JSON type: Array"
    ),
    example_error(
        "whole and decimal numbers in one feature",
        [{"names": [10, 10.0]}],
        "Unexpected element type in feature: names expecting type: int64",
    ),
    example_error(
        "a number beyond int64",
        [{"names": [18446744073709551615]}],
        "Feature: names has uint64_t element. Only int64_t is supported.",
    ),
    example_error(
        "a feature is missing", [{"y": 1.0}], "Feature: x (data type: float) is required but could not be found."
    ),
    refused(
        "regress by a predict signature",
        "half_plus_two:regress",
        {"examples": [{"x": 1.0}]},
        "Expected regression signature method_name to be tensorflow/serving/regress. Was: tensorflow/serving/predict",
    ),
    refused(
        "classify by a regress signature",
        "half_plus_two:classify",
        {"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}]},
        "Expected classification signature method_name to be tensorflow/serving/classify",
    ),
]

AVAILABLE = {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
STATUS = [
    *(
        Case(f"status of {path}", path, None, {"model_version_status": [AVAILABLE]}, method="GET")
        for path in ("half_plus_two", "half_plus_two/versions/123", "half_plus_two/labels/some_label")
    ),
    *(
        refused(f"status of {path}", path, None, error, status, "GET")
        for path, error, status in (
            ("foo", "Could not find any versions of model foo", 404),
            ("half_plus_two/versions/9", "Could not find version 9 of model half_plus_two", 404),
            ("half_plus_two/labels/x", "Unrecognized servable version label: x", 400),
        )
    ),
]

CASES = [*GOLDEN, *TYPES, *BODY_ERRORS, *PATH_ERRORS, *EXAMPLE_ERRORS, *STATUS]
