"""What every request passes before and after its protocol: keys, rate limits, disconnects, headers, overload."""
