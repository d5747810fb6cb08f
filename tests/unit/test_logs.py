"""Log lines: one printable line for each event, whatever a client sends."""

import json
import logging
import sys

import pytest
from dogsnap.logs import JsonFormatter, TextFormatter

HOSTILE = "犬 \n12:00:00 dogsnap.access: forged\r\x1b[2J\x9b2J\x85\u2028\u202e\ud800\x00\x7f"


def record(message: str, exc_info: object = None) -> logging.LogRecord:
    return logging.LogRecord("dogsnap", logging.INFO, "", 0, "%s", (message,), exc_info)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_event_is_one_line_of_printable_characters(formatter: logging.Formatter) -> None:
    line = formatter.format(record(HOSTILE))
    assert line.isprintable()
    assert "forged" in line


def test_text_escapes_what_is_not_printable_and_nothing_else() -> None:
    line = TextFormatter().format(record("犬 é\x1b[2J\n"))
    assert line.endswith(r"dogsnap: 犬 é\x1b[2J\n")


def test_json_keeps_the_message() -> None:
    assert json.loads(JsonFormatter().format(record(HOSTILE)))["message"] == HOSTILE
    assert "犬" in JsonFormatter().format(record("犬"))


def test_a_traceback_is_indented_so_that_no_line_of_it_is_taken_for_an_event() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        text = TextFormatter().format(record("failed", sys.exc_info()))
    first, *others = text.split("\n")
    assert first.endswith("dogsnap: failed")
    assert all(line.startswith("    ") and line.isprintable() for line in others)
    assert any("forged" in line for line in others)


@pytest.mark.parametrize("text", ["a" * 1_000_000, "\x1b" * 1_000_000, "犬\n" * 500_000])
@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_what_a_client_sends_makes_a_line_of_bounded_length(
    formatter: logging.Formatter, text: str
) -> None:
    assert len(formatter.format(record(f"begin {text} end"))) < 15_000
    assert "begin" in formatter.format(record(f"begin {text}"))
    assert formatter.format(record(f"{text} end")).rstrip('"}').endswith(" end")
    try:
        raise ValueError(text)
    except ValueError:
        assert len(formatter.format(record("failed", sys.exc_info()))) < 150_000
