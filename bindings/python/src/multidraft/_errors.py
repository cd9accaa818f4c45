"""The exception that the package raises."""


from typing import NoReturn


class InvalidInput(ValueError):
    """An argument is invalid: ``argument``, ``index`` (-1 if it is not a sequence), ``value`` and ``reason``."""

    def __init__(self, message: str, argument: str = "", index: int = -1, value: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.argument = argument
        self.index = index
        self.value = value
        self.reason = reason

    def __reduce__(self):
        return (type(self), (self.args[0], self.argument, self.index, self.value, self.reason))


def refuse(argument: str, value: object, reason: str, index: int = -1) -> NoReturn:
    """Raises `InvalidInput` with a message in the library's format."""
    place = argument if index < 0 else f"{argument}[{index}]"
    raise InvalidInput(f"{place} = {value}: {reason}", argument, index, str(value), reason)
