"""The HTML page, description and summary of a run, and the comparison of two runs."""
