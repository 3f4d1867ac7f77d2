"""The engine of asynchronous training: servers hold the parameters, workers compute the steps.

Every step is computed by one worker on a whole batch: it reads the parameters, and its update is applied when it is
ready, whatever others have applied meanwhile (Dean et al., NIPS 2012).
"""
