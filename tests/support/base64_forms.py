"""The forms of base64 text that clients send: functions from the bytes to the text, by name."""

import base64

FORMS = {
    "standard": base64.b64encode,
    "standard without padding": lambda contents: base64.b64encode(contents).rstrip(b"="),
    "web-safe": base64.urlsafe_b64encode,
    "web-safe without padding": lambda contents: base64.urlsafe_b64encode(contents).rstrip(b"="),
    "line breaks": base64.encodebytes,
    "Windows line breaks": lambda contents: base64.encodebytes(contents).replace(b"\n", b"\r\n"),
    "a data: prefix": lambda contents: b"data:image/jpeg;base64," + base64.b64encode(contents),
    "a data: prefix with parameters, in capitals, and white space": lambda contents: (
        b"  DATA:image/jpeg;name=a.jpg;base64,\n" + base64.b64encode(contents) + b"\n"
    ),
}
