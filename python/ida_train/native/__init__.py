"""What is closest to the engine: codecs of its weight files, and `_engine`, its code."""
