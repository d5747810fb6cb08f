"""dogsnap: tells a dog's breed from a photo, and serves the model behind it."""
