"""Generates example clients for a signature in bash, Python, JavaScript and Go, as Simple TensorFlow Serving does.

Example values are written as "this value, in lists of these sizes", so that a client for images stays short.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import InvalidArgument
from dogsnap.serving.tensors.signatures import Signature

# A photo of one grey pixel, as base64 text: what a text input of a photo model can really decode.
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)

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

curl -s -H "Content-Type: application/json" -X POST --data-binary @- $endpoint <<END
{$fields, "data": {$data}}
END
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
    endpoint = "$endpoint"
    json_data = {$fields, "data": {$data}}
    result = requests.post(endpoint, json=json_data)
    print(result.text)


if __name__ == "__main__":
    main()
"""

JAVASCRIPT = """#!/usr/bin/env node

// The value in nested lists of these sizes.
const filled = (value, ...sizes) => sizes.reduceRight((inner, size) => Array(size).fill(inner), value);

const request = {$fields, "data": {$data}};
fetch("$endpoint", {
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
\trequest := map[string]interface{}{$fields, "data": map[string]interface{}{$data}}
\tbody, err := json.Marshal(request)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tresponse, err := http.Post("$endpoint", "application/json", bytes.NewReader(body))
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
class Language:
    """How a language writes a client, a value in it, and a value in lists of some sizes."""

    template: str
    filled: str = "filled({value}, {sizes})"
    separator: str = ", "
    value: Callable[[Any], str] = json.dumps


LANGUAGES = {
    "bash": Language(BASH, "$(filled '{value}' {sizes})", " "),
    "python": Language(PYTHON, value=repr),
    "javascript": Language(JAVASCRIPT),
    "golang": Language(
        GOLANG,
        value=lambda value: "map[string]interface{}" * isinstance(value, dict) + json.dumps(value),
    ),
}


def client(name: str, endpoint: str, asked: dict[str, Any], signature: Signature) -> str:
    """The source of a client in language `name` for example data. Raises InvalidArgument for another language."""
    if name not in LANGUAGES:
        raise InvalidArgument(f"language is {name!r}; expected one of {', '.join(LANGUAGES)}")
    language = LANGUAGES[name]
    inputs = []
    for alias, spec in signature.inputs.items():
        value, sizes = _example(spec)
        written = language.value(value)
        if sizes:
            written = language.filled.format(
                value=written, sizes=language.separator.join(map(str, sizes))
            )
        inputs.append(f"{json.dumps(alias)}: {written}")
    fields = ", ".join(
        f"{json.dumps(field)}: {json.dumps(value)}" for field, value in asked.items()
    )
    return Template(language.template).substitute(
        endpoint=endpoint, fields=fields, data=", ".join(inputs)
    )


def example_data(signature: Signature) -> dict[str, Any]:
    """Example data for every input, as POST / takes it."""
    examples = {alias: _example(spec) for alias, spec in signature.inputs.items()}
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
