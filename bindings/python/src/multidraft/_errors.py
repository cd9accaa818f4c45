"""The exception that the package raises."""


class InvalidInput(ValueError):
    """An argument is invalid: ``argument``, ``index`` (-1 if it is not a sequence), ``value`` and ``reason``."""

    def __init__(self, message, argument="", index=-1, value="", reason=""):
        super().__init__(message)
        self.argument = argument
        self.index = index
        self.value = value
        self.reason = reason

    def __reduce__(self):
        return (type(self), (self.args[0], self.argument, self.index, self.value, self.reason))


def refuse(argument, value, reason, index=-1):
    """Raises `InvalidInput` with a message in the library's format."""
    place = argument if index < 0 else f"{argument}[{index}]"
    raise InvalidInput(f"{place} = {value}: {reason}", argument, index, str(value), reason)
