"""A client of TensorFlow Serving's REST API that knows nothing of this project: web-safe base64 in, the JSON answer printed.

Usage: rest_client.py HOST:PORT PHOTO [MODEL_PATH]   (MODEL_PATH: vit, or vit/versions/1)
"""

import base64
import json
import sys
from pathlib import Path

import requests

host, photo = sys.argv[1:3]
model_path = sys.argv[3] if len(sys.argv) > 3 else "vit"

text = base64.urlsafe_b64encode(Path(photo).read_bytes()).decode("utf-8")
body = json.dumps({"signature_name": "serving_default", "instances": [text]})
response = requests.post(
    f"http://{host}/v1/models/{model_path}:predict",
    data=body,
    headers={"content-type": "application/json"},
    timeout=60,
)
print(json.loads(response.text))
