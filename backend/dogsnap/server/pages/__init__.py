"""The pages /console and /docs, the app, and the example clients."""
