"""TensorFlow Serving's contract as a table: what is asked of which tiny model, and what must come back.

One row is one request of the REST API. The messages are the substrings that TensorFlow Serving's own tests look for, or
as much of its texts as a client could rely on. `CONFIG` names the models; `make_models` builds them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import tensorflow1_models, tiny_models

MODELS = {
    "half_plus_two": (tensorflow1_models.half_plus_two, 123),
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

    path: str
    body: Any = None
    answer: Any = None
    status: int = 200
    error: str = ""
    method: str = "POST"

    @property
    def name(self) -> str:
        return f"{self.method} {self.path} {self.body!r}"[:100]


def refused(path: str, body: Any, error: str, status: int = 400, method: str = "POST") -> Case:
    return Case(path, body, None, status, error, method)


def cases(table: dict[str, list[tuple[Any, Any]]]) -> list[Case]:
    """Of rows of a body, and the answer or what a refusal with 400 says.

    The table is by path; behind a space stands the name of the signature that the bodies ask for.
    """
    found = []
    for key, rows in table.items():
        path, _, signature = key.partition(" ")
        for given, expected in rows:
            body = {"signature_name": signature, **given} if signature else given
            found.append(
                refused(path, body, expected)
                if isinstance(expected, str)
                else Case(path, body, expected)
            )
    return found


ANSWERED = {
    "half_plus_two:predict": [
        ({"instances": [[1.0, 2.0], [3.0, 4.0]]}, {"predictions": [[2.5, 3.0], [3.5, 4.0]]}),
        ({"inputs": 3}, {"outputs": 3.5}),
        ({"instances": [{"x": 1}, {"x": 2}]}, {"predictions": [2.5, 3.0]}),
        ({"inputs": {"x": [1, 2], "y": 7}}, {"outputs": [2.5, 3.0]}),
        ({"instances": [1], "more": {"a": [1]}}, {"predictions": [2.5]}),
        ({"signature_name": "", "inputs": [1]}, {"outputs": [2.5]}),
        (b'{"instances": [1.0]} }}}', {"predictions": [2.5]}),
        (b'\xef\xbb\xbf{"instances": [1.0]}', {"predictions": [2.5]}),
    ],
    "half_plus_two:predict serving_default": [({"inputs": [3.0, 4.0]}, {"outputs": [3.5, 4.0]})],
    "half_plus_two/versions/123:predict": [
        ({"instances": [1.0, 2.0]}, {"predictions": [2.5, 3.0]})
    ],
    "half_plus_two/versions/00123:predict": [({"instances": [1.0]}, {"predictions": [2.5]})],
    "half_plus_two/labels/some_label:predict": [
        ({"instances": [1.0, 2.0]}, {"predictions": [2.5, 3.0]})
    ],
    "a%21%23%24%26b%2Fc/labels/l%3Aa%20b:predict": [({"instances": [2.0]}, {"predictions": [4.0]})],
    "half_plus_two:regress regress_x_to_y": [
        ({"examples": [{"x": 80.0}]}, {"results": [42]}),
        ({"examples": [{"x": 80.0}, {"x": [20.0]}]}, {"results": [42, 12]}),
        (
            {"context": {"x": 80.0, "z": "a"}, "examples": [{"y": 1}, {"x": 20.0}]},
            {"results": [42, 12]},
        ),
        (
            {
                "examples": [
                    {"x": 80.0, "a": [1, 2], "b": [True, False], "text": "狗", "c": {"b64": "/9g="}}
                ]
            },
            {"results": [42]},
        ),
    ],
    "half_plus_two:classify classify_x_to_y": [
        ({"examples": [{"x": 20.0}]}, {"results": [[["", 12]]]})
    ],
    "half_plus_two:classify classify_with_labels": [
        (
            {"examples": [{"x": 20.0}, {"x": 0.0}]},
            {"results": [[["plus", 12], ["minus", -12]], [["plus", 2], ["minus", -2]]]},
        ),
    ],
    "texts:predict as_bytes": [
        (
            {"instances": [["hello", "world"], ["tf", "狗"]]},
            {
                "predictions": [
                    [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}],
                    [{"b64": "dGY="}, {"b64": "54uX"}],
                ]
            },
        ),
        ({"inputs": {"b64": "-_8"}}, {"outputs": {"b64": "+/8="}}),
    ],
    "texts:predict as_text": [
        (
            {"instances": [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}]},
            {"predictions": ["hello", "world"]},
        ),
        ({"instances": ["aGVsbG8=", "狗"]}, {"predictions": ["aGVsbG8=", "狗"]}),
        ({"inputs": [{"b64": "//79"}]}, {"outputs": [{"b64": "//79"}]}),
    ],
    "texts:predict shape": [
        ({"inputs": [[{"b64": "aGVsbG8="}], [{"b64": "d29ybGQ="}]]}, {"outputs": [2, 1]}),
        ({"inputs": {"bin": {"b64": "aGVsbG8="}}}, {"outputs": []}),
    ],
    "texts:predict": [
        ({"instances": ["a"]}, {"predictions": [{"text": "a", "tensor_bytes": {"b64": "YQ=="}}]}),
        ({"instances": ["b"]}, {"predictions": [{"text": "b", "tensor_bytes": {"b64": "Yg=="}}]}),
    ],
    "several:predict": [
        (
            {"instances": [{"a": 1.5, "b": 2}, {"b": 4, "a": 3}]},
            {"predictions": [{"sum": 3.5, "product": 3.0}, {"sum": 7.0, "product": 12.0}]},
        ),
        (
            {"inputs": {"a": [1.5, 3], "b": [2, 4], "c": None}},
            {"outputs": {"sum": [3.5, 7.0], "product": [3.0, 12.0]}},
        ),
    ],
    "odd_outputs:predict not_finite": [({"inputs": [1.0]}, {"outputs": [[None, None, None, 1.0]]})],
    "odd_outputs:predict empty": [({"instances": [1.0]}, {"predictions": []})],
    "odd_outputs:predict scalar": [({"inputs": [1, 2]}, {"outputs": 3})],
    "constant:predict": [({"inputs": {}}, {"outputs": 42.0})],
}


def typed(dtype: str, sent: Any, answer: Any) -> Case:
    return Case("all_types:predict", {"signature_name": dtype, "inputs": sent}, {"outputs": answer})


def mistyped(dtype: str, sent: Any, shown: str, kind: str, name: str = "") -> Case:
    error = f"JSON Value: {shown} Type: {kind} is not of expected type: {name or dtype}"
    return refused("all_types:predict", {"signature_name": dtype, "inputs": sent}, error)


TYPES = [
    typed("float32", [1, 2.5, -3], [1.0, 2.5, -3.0]),
    typed("float32", 1435774380, 1435774336.0),
    Case(
        "all_types:predict",
        b'{"signature_name": "float32", "inputs": [1e39, -1e39, NaN, Infinity, -Infinity, 1e-50]}',
        {"outputs": [None, None, None, None, None, 0.0]},
    ),
    typed("float64", [0.1, 1e300], [0.1, 1e300]),
    typed("int8", [-128, 127], [-128, 127]),
    typed("int16", -32768, -32768),
    typed("int32", [2147483647], [2147483647]),
    typed(
        "int64",
        [9223372036854775807, -9223372036854775808],
        [9223372036854775807, -9223372036854775808],
    ),
    typed("uint8", [0, 255], [0, 255]),
    typed("uint32", 4294967295, 4294967295),
    typed("uint64", 18446744073709551615, 18446744073709551615),
    typed("bool", [True, False], [True, False]),
    typed("string", ["a", {"b64": "Yg=="}], ["a", "b"]),
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
    refused("all_types:predict", {"signature_name": "half", "inputs": [1.0]}, "to type: half", 501),
    refused(
        "all_types:predict",
        {"signature_name": "complex64", "inputs": [1.0]},
        "to type: complex64",
        501,
    ),
]

ELEMENT = "Failed to process element: %s of 'instances' list."
ROW_1 = f"{ELEMENT % 1} Error: INVALID_ARGUMENT: "
SEVERAL = "as multiple input tensors required as per tensorinfo_map"
NO_INPUTS = "Failed to get input map for signature: serving_default"
DEEP = b'{"deep": %s1%s, "instances": [1.0]}' % (b"[" * 500000, b"]" * 500000)
METHOD = "Expected %s signature method_name to be tensorflow/serving/%s"
REFUSED = {
    "half_plus_two:predict": [
        (b"", "JSON Parse error: The document is empty"),
        (b"abc", "JSON Parse error: Invalid value. at offset: 0"),
        (b'{"a": 1 "b": 2}', "at offset: 8"),
        (DEEP, "JSON Parse error: nested deeper than 100 levels"),
        (b'{"a": "\xff"}', "JSON Parse error: Invalid encoding"),
        ([1, 2], "JSON Value: [1,2] Is not object"),
        (
            {"signature_name": 5, "inputs": 1},
            "not formatted correctly. 'signature_name' key must be a string value.",
        ),
        (
            {"instances": [1], "inputs": [1]},
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
        ),
        ({"x": 1}, "Missing 'inputs' or 'instances' key"),
        (
            {"instances": {"x": 1}},
            'JSON Value: {"instances":{"x":1}} Expecting \'instances\' to be an list/array',
        ),
        ({"instances": []}, "JSON Value: {\"instances\":[]} No values in 'instances'"),
        ({"instances": [{"x": 1}, 2]}, "Expecting object but got list at item 1 of input list"),
        (
            {"instances": [1, {"x": 2}]},
            "Expecting value/list but got object at item 1 of input list",
        ),
        ({"instances": [[1, 2], [1, 2, 3]]}, f"{ROW_1}Expecting tensor size: 2 but got: 3"),
        (
            {"instances": [{"x": [1, 2]}, {"x": [1, 2, 3]}]},
            f"{ELEMENT % '1 key: x'} Error: INVALID_ARGUMENT: Expecting tensor size: 2 but got: 3",
        ),
        ({"instances": [[1], [[1]]]}, f"{ROW_1}Expecting shape [1] but got: [1,1]"),
        (
            {"inputs": [[1, 2], [1, 2, 3]]},
            "Encountered list at unexpected size: 3 at level: 1 expected size: 2",
        ),
        ({"inputs": [1, [2]]}, "Encountered list at unexpected level: 1 expected < 1"),
        (
            {"inputs": [[1], 2]},
            "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
        ),
        (
            {"instances": [1, "x"]},
            f'{ROW_1}JSON Value: "x" Type: String is not of expected type: float',
        ),
        (
            {"inputs": [{"b64": "YQ=="}]},
            'JSON Value: {"b64":"YQ=="} Type: Object is not of expected type: float',
        ),
    ],
    "half_plus_two:predict nope": [
        ({"instances": [1]}, 'Serving signature name: "nope" not found in signature def')
    ],
    "all_types:predict half": [
        (
            {"instances": [1.0]},
            f"{ELEMENT % 0} Error: UNIMPLEMENTED: Conversion of JSON Value: 1.0 to type: half",
        ),
    ],
    "constant:predict": [
        (body, NO_INPUTS)
        for body in ({"instances": [1]}, {"instances": [{"b64": "AA=="}]}, {"inputs": 5})
    ],
    "nope:predict": [(b"abc", "JSON Parse error: Invalid value. at offset: 0")],
    "several:predict": [
        ({"instances": [1, 2]}, f"expecting list of objects {SEVERAL}"),
        ({"instances": [{"b64": "AA=="}]}, f"expecting list of objects {SEVERAL}"),
        ({"inputs": [1, 2]}, f"expecting an object {SEVERAL}"),
        ({"inputs": {"a": [1]}}, "Missing named input: b in 'inputs' object."),
        (
            {"instances": [{"a": 1}]},
            f'{ELEMENT % 0} JSON object: {{"a":1}} keys must be equal to: a,b',
        ),
        (
            {"instances": [{"a": 1, "b": 2}, {"a": 1, "b": 2, "foo": 3}]},
            f"{ELEMENT % '1 key: foo'} Error: INVALID_ARGUMENT: JSON object: does not have named input: foo",
        ),
        ({"inputs": {"a": [[1]], "b": [1]}}, 'input "a": expected shape (None,), received (1, 1)'),
    ],
    "texts:predict": [
        (
            {"inputs": {"bin": [{"b64": "YQ==", "x": 1}]}},
            'JSON Value: {"b64":"YQ==","x":1} not formatted correctly for base64 data',
        ),
        ({"inputs": {"b64": "!!"}}, "Unable to base64 decode"),
    ],
    "odd_outputs:predict scalar": [
        ({"instances": [1]}, "Tensor name: y has no shape information ")
    ],
    "odd_outputs:predict uneven": [
        ({"instances": [1]}, "Tensor name: b has inconsistent batch size: 2 expecting: 1")
    ],
    "odd_outputs:predict complex_number": [
        ({"inputs": [1]}, "Failed to write JSON value for tensor type: complex64")
    ],
    "odd_outputs:predict decode_png": [
        ({"inputs": "what"}, "Unknown image file format. One of JPEG, "),
        ({"instances": ["what"]}, "`contents` must be scalar but got shape[1]"),
        ({"instances": ["what"]}, "this graph takes one value: send it without a list around it"),
    ],
    "half_plus_two:classify": [({}, "When method is classify, key 'examples' is expected")],
    "half_plus_two:classify regress_x_to_y": [
        ({"examples": [{"x": 1.0}]}, METHOD % ("classification", "classify"))
    ],
    "half_plus_two:regress": [
        ({}, "When method is regress, key 'examples' is expected"),
        (
            {"examples": [{"x": 1.0}]},
            f"{METHOD % ('regression', 'regress')}. Was: tensorflow/serving/predict",
        ),
    ],
    "half_plus_two:regress regress_x_to_y": [
        ({"examples": examples}, error)
        for examples, error in (
            ({"x": 1}, "Expecting 'examples' value to be an list/array"),
            ([], "'examples' value is an empty array"),
            ([[1]], "Example must be JSON object but got JSON Array"),
            ([{"names": [None]}], "Feature: names has element with unexpected JSON type: Null"),
            ([{"names": [[1]]}], "Feature: names has element with unexpected JSON type: Array"),
            (
                [{"names": [10, 10.0]}],
                "Unexpected element type in feature: names expecting type: int64",
            ),
            (
                [{"names": [18446744073709551615]}],
                "Feature: names has uint64_t element. Only int64_t is supported.",
            ),
            ([{"y": 1.0}], "Feature: x (data type: float) is required but could not be found."),
        )
    ],
    "half_plus_two/labels/canary:predict": [({}, "Unrecognized servable version label: canary")],
    "half_plus_two/versions/18446744073709551615:predict": [
        ({}, "Failed to convert version: 18446744073709551615 to numeric."),
    ],
    **{
        path: [({}, "Malformed request: POST /v1/models")]
        for path in (
            *("", "half_plus_two", "half_plus_two/metadata", "half_plus_two:explain"),
            *("half_plus_two/version/50:predict", "half_plus_two/label/x:predict"),
            *("half_plus_two/versions/HELLO:predict", "half_plus_two/versions/50/labels/x:regress"),
        )
    },
}

AVAILABLE = {
    "version": "123",
    "state": "AVAILABLE",
    "status": {"error_code": "OK", "error_message": ""},
}
OTHERS = [
    refused("half:predict", {}, "Servable not found for request: Latest(half)", 404),
    refused("half_plus_two/versions/99:predict", {}, "Specific(half_plus_two, 99)", 404),
    refused("half_plus_two/labels/later:predict", {}, "waits for version 124", 503),
    refused("half_plus_two:predict", None, "Malformed request: GET /v1/models", 400, "GET"),
    refused("a/b", None, "Malformed request: GET /v1/models", 400, "GET"),
    refused("half_plus_two:predict", None, "Malformed request: PUT /v1/models", 400, "PUT"),
    refused("half_plus_two", None, "Malformed request: DELETE /v1/models", 400, "DELETE"),
    *(
        Case(path, None, {"model_version_status": [AVAILABLE]}, method="GET")
        for path in (
            "half_plus_two",
            "half_plus_two/versions/123",
            "half_plus_two/labels/some_label",
        )
    ),
    refused("foo", None, "Could not find any versions of model foo", 404, "GET"),
    refused(
        "half_plus_two/versions/9",
        None,
        "Could not find version 9 of model half_plus_two",
        404,
        "GET",
    ),
    refused("half_plus_two/labels/x", None, "Unrecognized servable version label: x", 400, "GET"),
]

CASES = [*cases(ANSWERED), *cases(REFUSED), *TYPES, *OTHERS]
