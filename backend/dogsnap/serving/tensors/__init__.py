"""Conversions between JSON, protocol buffers, tf.Example and arrays."""
