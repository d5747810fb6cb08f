"""Photos: checked before they are decoded, turned upright, made into the network's input."""
