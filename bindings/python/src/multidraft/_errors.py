"""What the package raises."""


class InvalidInput(ValueError):
    """An argument cannot be used: ``argument``, ``index`` (-1 where it is no sequence), ``value`` and ``why``."""

    def __init__(self, message, argument="", index=-1, value="", why=""):
        super().__init__(message)
        self.argument = argument
        self.index = index
        self.value = value
        self.why = why

    def __reduce__(self):
        return (type(self), (self.args[0], self.argument, self.index, self.value, self.why))


def refuse(argument, value, why, index=-1):
    """Raises `InvalidInput` in the words of the library."""
    place = argument if index < 0 else f"{argument}[{index}]"
    raise InvalidInput(f"{place} = {value}: {why}", argument, index, str(value), why)
