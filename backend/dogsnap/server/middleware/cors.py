"""CORS: lets web pages of other origins call this server."""

from flask import Response, request

# Headers that pages of other origins may send, with those of tracing (W3C Trace Context and
# Baggage) and of binary tensors, and those that they may read.
SENT = (
    "Content-Type, X-Api-Key, Authorization, X-Request-Key, X-Request-Id, Content-Encoding, "
    "Inference-Header-Content-Length, traceparent, tracestate, baggage, "
    "X-Amzn-SageMaker-Custom-Attributes"
)
READ = "X-Request-Id, Retry-After, X-Dogsnap-Model-Version, Inference-Header-Content-Length"


def add_headers(response: Response) -> Response:
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Allow-Methods"] = "POST, GET"
    # Without Access-Control-Request-Headers, answer exactly as TensorFlow Serving does.
    asks = "Access-Control-Request-Headers" in request.headers
    response.headers["Access-Control-Allow-Headers"] = SENT if asks else "Content-Type"
    response.headers["Access-Control-Expose-Headers"] = READ
    return response
