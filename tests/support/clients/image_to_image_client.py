"""Sends one picture to an image-to-image model and writes the picture that comes back, as the article on TensorFlow Serving's
RESTful API does; run as a program with the server, a picture and the file to write.

It knows nothing of this project: one row, base64 of the file, and the answer taken from the first prediction.
"""

import base64
import json
import sys
from pathlib import Path

import requests

server, picture, out = sys.argv[1:]
text = base64.b64encode(Path(picture).read_bytes()).decode("utf-8")
data = json.dumps({"instances": [{"b64": text}]})
answer = requests.post(f"{server}/v1/models/saved_model:predict", data=data, timeout=60)
Path(out).write_bytes(base64.b64decode(json.loads(answer.text)["predictions"][0]["b64"]))
