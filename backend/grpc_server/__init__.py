"""The gRPC server: admission of calls, and starting and draining it."""
