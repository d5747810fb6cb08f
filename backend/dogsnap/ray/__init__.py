"""The predictor on a Ray cluster: one application per model version behind Ray
Serve's gRPC proxy. Needs the extra [ray].
"""
