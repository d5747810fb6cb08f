"""Generates example clients for a signature in bash, Python, JavaScript and Go,
as Simple TensorFlow Serving does.

Example values are written as "this value, in lists of these sizes", so that a
client for images stays short.
"""

import json
import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import InvalidArgument, TooLarge
from dogsnap.serving.tensors.signatures import Signature

# A photo of one grey pixel, as base64 text: what a text input of a photo model can really decode.
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)

MOST_VALUES = 1_000_000  # of an example as JSON

BASH = """#!/bin/bash

# filled VALUE SIZE...: the value in nested lists of these sizes
filled() {
  local value=$$1 i
  for ((i = $$#; i > 1; i--)); do
    value=$$(yes "$$value" | head -n "$${!i}" | paste -s -d ,)
    value="[$$value]"
  done
  echo "$$value"
}

printf %s $request |
  curl -s -H "Content-Type: application/json" -X POST --data-binary @- $endpoint
echo
"""

PYTHON = """#!/usr/bin/env python3

import requests


def filled(value, *sizes):
    \"\"\"The value in nested lists of these sizes.\"\"\"
    for size in reversed(sizes):
        value = [value] * size
    return value


def main():
    endpoint = $endpoint
    json_data = $request
    result = requests.post(endpoint, json=json_data)
    print(result.text)


if __name__ == "__main__":
    main()
"""

JAVASCRIPT = """#!/usr/bin/env node

// The value in nested lists of these sizes.
const filled = (value, ...sizes) => sizes.reduceRight((inner, size) => Array(size).fill(inner), value);

const request = $request;
fetch($endpoint, {
  method: "POST",
  headers: {"Content-Type": "application/json"},
  body: JSON.stringify(request),
}).then((response) => response.text()).then(console.log);
"""

GOLANG = """package main

import (
\t"bytes"
\t"encoding/json"
\t"fmt"
\t"io"
\t"log"
\t"net/http"
)

// filled gives the value in nested lists of these sizes.
func filled(value interface{}, sizes ...int) interface{} {
\tfor i := len(sizes) - 1; i >= 0; i-- {
\t\tlist := make([]interface{}, sizes[i])
\t\tfor j := range list {
\t\t\tlist[j] = value
\t\t}
\t\tvalue = list
\t}
\treturn value
}

func main() {
\trequest := $request
\tbody, err := json.Marshal(request)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tresponse, err := http.Post($endpoint, "application/json", bytes.NewReader(body))
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tdefer response.Body.Close()
\tanswer, err := io.ReadAll(response.Body)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tfmt.Println(string(answer))
}
"""


@dataclass(frozen=True)
class Filled:
    """A value in nested lists of these sizes."""

    value: Any
    sizes: list[int]


@dataclass(frozen=True)
class Language:
    """A client's template, and how the language writes a text and the request."""

    template: str
    write_text: Callable[[str], str]
    write_request: Callable[[dict[str, Any]], str]


def client(name: str, endpoint: str, asked: dict[str, Any], signature: Signature) -> str:
    """The source of a client in language `name` for example data.

    Raises InvalidArgument for another language.
    """
    if name not in LANGUAGES:
        raise InvalidArgument(f"language is {name!r}; expected one of {', '.join(LANGUAGES)}")
    language = LANGUAGES[name]
    data = {}
    for alias, spec in signature.inputs.items():
        data[alias] = Filled(*_example(spec))
    request = language.write_request({**asked, "data": data})
    endpoint = language.write_text(endpoint)
    return Template(language.template).substitute(endpoint=endpoint, request=request)


def _write_expression(value: Any, write: Callable[[Any], str], start: str = "{") -> str:
    """A value as an expression; `write` writes texts and numbers, `start`
    begins an object.
    """
    if isinstance(value, Filled):
        arguments = [_write_expression(value.value, write, start), *map(str, value.sizes)]
        return f"filled({', '.join(arguments)})"
    if isinstance(value, dict):
        members = []
        for key, member in value.items():
            members.append(f"{write(key)}: {_write_expression(member, write, start)}")
        return start + ", ".join(members) + "}"
    return write(value)


def _write_python(value: Any) -> str:
    return _write_expression(value, repr)


def _write_javascript(value: Any) -> str:
    return _write_expression(value, json.dumps)


def _write_go(value: Any) -> str:
    return _write_expression(value, _write_go_literal, "map[string]interface{}{")


def _write_go_literal(value: Any) -> str:
    """Go has JSON's literals, but no escapes of half a character."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def _write_bash(request: dict[str, Any]) -> str:
    """The words whose joined text is the JSON of the request."""
    fields = json.dumps({**request, "data": {}})
    words = [shlex.quote(fields.removesuffix("}}"))]
    separator = ""
    for alias, filled in request["data"].items():
        words.append(shlex.quote(f"{separator}{json.dumps(alias)}: "))
        arguments = [shlex.quote(json.dumps(filled.value)), *map(str, filled.sizes)]
        words.append(f'"$(filled {" ".join(arguments)})"')
        separator = ", "
    return " ".join([*words, shlex.quote("}}")])


LANGUAGES = {
    "bash": Language(BASH, shlex.quote, _write_bash),
    "python": Language(PYTHON, _write_python, _write_python),
    "javascript": Language(JAVASCRIPT, _write_javascript, _write_javascript),
    "golang": Language(GOLANG, _write_go, _write_go),
}


def example_data(signature: Signature) -> dict[str, Any]:
    """Example data for every input, as POST / takes it.

    Raises TooLarge for more than MOST_VALUES of them.
    """
    examples = {alias: _example(spec) for alias, spec in signature.inputs.items()}
    for alias, (_, sizes) in examples.items():
        if math.prod(sizes) > MOST_VALUES:
            raise TooLarge(
                f'input "{alias}" takes {math.prod(sizes)} values; examples have at '
                f"most {MOST_VALUES}; "
                "a generated client (gen_client) makes them itself"
            )
    return {
        alias: np.full(sizes, value, dtype=object).tolist()
        for alias, (value, sizes) in examples.items()
    }


def _example(spec: tf.TensorSpec) -> tuple[Any, list[int]]:
    """A value and the sizes of the lists around it; one where a size is open."""
    sizes = [1] if spec.shape.rank is None else [size or 1 for size in spec.shape]
    if spec.dtype == tf.string:
        return ({"b64": ONE_PIXEL} if spec.name.endswith("_bytes") else ONE_PIXEL), sizes
    if spec.dtype == tf.bool:
        return True, sizes
    return (1 if spec.dtype.is_integer else 1.0), sizes
