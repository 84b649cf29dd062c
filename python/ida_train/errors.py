"""What the package raises beside ValueError, TypeError and OSError."""


class CorruptFileError(ValueError):
    """A file that breaks the rules of its format. One line: file, tensor, what was expected, what was found."""
