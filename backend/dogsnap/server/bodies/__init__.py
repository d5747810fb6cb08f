"""Bodies of HTTP requests: received, and read as JSON, photos and fields."""
