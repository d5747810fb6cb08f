"""One module per protocol: translates requests for the predictor, and its
results into answers.
"""
