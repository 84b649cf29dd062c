"""What is closest to the engine: codecs of its weight files, and `_engine`, its code."""
from ida_train.native import mxfp8_codec

__all__ = ["mxfp8_codec"]
