"""What a person reads in a terminal: progress, states and summaries in words."""
