"""The config: what its sections share, how a preset is read, and the whole of it (`compose`)."""
