"""Pictures as SVG: without a date, the same bytes for the same data, and half as large where scour is installed."""
import io
from pathlib import Path


def pyplot():
    """matplotlib's, set to write such pictures; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "multidraft"
    import matplotlib.pyplot
    return matplotlib.pyplot


def smaller(text):
    """The same picture: four digits of a number, no metadata, one definition of what is equal."""
    try:
        from scour import scour
    except ImportError:
        return text
    options = scour.sanitizeOptions()
    options.digits = options.cdigits = 4
    options.remove_metadata = options.strip_comments = options.strip_ids = options.shorten_ids = True
    options.group_create = options.enable_viewboxing = True
    options.strip_xml_prolog = True
    options.indent_type = "none"
    return scour.scourString(text, options)


def save(figure, path):
    """Writes a figure of `pyplot` and closes it."""
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor="white", metadata={"Date": None})
    pyplot().close(figure)
    Path(path).write_text(smaller(text.getvalue()), encoding="utf-8")
