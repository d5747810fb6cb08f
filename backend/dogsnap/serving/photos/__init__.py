"""Photos: base64 text, file checks, orientation, preprocessing."""
