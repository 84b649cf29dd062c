"""Number formats and weight files of ida-train on numpy arrays, computed by the engine's own code."""
from importlib.metadata import version as _version

from ida_train.errors import CorruptFileError

__version__ = _version("ida-train")
__all__ = ["CorruptFileError", "__version__"]
