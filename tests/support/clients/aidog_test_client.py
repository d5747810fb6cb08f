"""Sends what AIDog's test client sends, and reads the answer as that does; run as a program with the server and a photo.

It knows nothing of this project. Web-safe base64 with its padding, always version 2; the three best by their places.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import requests

endpoint, photo = sys.argv[1:]
encoded = str(base64.urlsafe_b64encode(Path(photo).read_bytes()), "utf-8")
body = {"model_name": "default", "model_version": 2, "data": {"image": encoded}}
result = requests.post(endpoint, json=body, timeout=60)
scores = np.array(json.loads(result.text)["prediction"][0])
print(json.dumps([[int(place), float(scores[place])] for place in np.argsort(-scores)[:3]]))
