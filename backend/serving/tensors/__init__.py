"""Tensors: signatures, and values between JSON, protocol buffers, tf.Example and arrays."""
