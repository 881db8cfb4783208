# SPDX-License-Identifier: Apache-2.0
"""
What a value looks like: text always, and the forms that it has itself (_repr_html_() and the like)

Figures of matplotlib are shown as pictures, with what is drawn in them as data (kernel_charts.py); data frames have
their columns as data. Nothing here imports such a library: what is not loaded has made no value.
"""

import base64
import json
import math
import sys
import types

LINE_MAX = (4 << 20) - 4096
TEXT_MAX = 1 << 20
ITEMS_MAX = 1000

KEYS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
    "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
    "application/javascript": "javascript",
}
METHODS = {
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml", "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg", "_repr_pdf_": "application/pdf", "_repr_latex_": "text/latex",
    "_repr_json_": "application/json", "_repr_javascript_": "application/javascript",
}

cell = None


# ---- text ----

def plain(value):
    kind = type(value)
    try:
        if kind in (list, tuple, set, frozenset, dict) and len(value) > ITEMS_MAX:
            text = cut_container(value, kind)
        else:
            text = repr(value)
            if len(text) > 79 and kind in (list, tuple, set, frozenset, dict):
                import pprint
                text = pprint.pformat(value, width=80, sort_dicts=False)
    except RecursionError:
        text = object.__repr__(value)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


def cut_container(value, kind):
    some = []
    for item in value.items() if kind is dict else value:
        some.append(f"{item[0]!r}: {item[1]!r}" if kind is dict else repr(item))
        if len(some) == ITEMS_MAX:
            break
    opening, closing = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: ("frozenset({", "})")}[kind]
    return opening + ",\n ".join(some) + ",\n ..." + closing


def unquoted(text):
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


# ---- forms ----

def is_own(value, name):
    """Classes have what is meant for their instances; and what has every attribute has none of these."""
    if isinstance(value, type) or not hasattr(type(value), name) and name not in getattr(value, "__dict__", {}):
        return False
    return callable(getattr(value, name, None))


def content(mime, data):
    if isinstance(data, (bytes, bytearray)):
        return base64.b64encode(data).decode("ascii")
    if mime == "application/json":
        return sane(data)
    return data if isinstance(data, str) else str(data)


def bundle_of(value, include=None):
    bundle = {"text/plain": plain(value)}
    if is_own(value, "_repr_mimebundle_"):
        try:
            found = value._repr_mimebundle_(include=None, exclude=None)
        except TypeError:
            found = value._repr_mimebundle_()
        if isinstance(found, tuple):
            found = found[0]
        bundle.update(found or {})
    for name, mime in METHODS.items():
        if mime in bundle or not is_own(value, name):
            continue
        try:
            data = getattr(value, name)()
        except NotImplementedError:
            continue
        if isinstance(data, tuple):
            data = data[0]
        if data is not None:
            bundle[mime] = data
    return bundle


def keyed(bundle):
    found = {}
    for mime, data in bundle.items():
        if data is None:
            continue
        data = sane(data) if isinstance(data, (dict, list)) else content(mime, data)
        found[KEYS.get(mime, mime)] = unquoted(data) if mime == "text/plain" else data
    return found


def formats(value, bundle=None):
    found = keyed(bundle_of(value) if bundle is None else bundle)
    kind = type(value)
    module = kind.__module__.split(".")[0]
    if module == "pandas" and kind.__name__ == "DataFrame":
        found["data"] = {str(name): sane(items) for name, items in value.to_dict(orient="list").items()}
    elif module == "matplotlib" and is_figure(value):
        found.update(figure_forms(value))
    return found


def sane(value, depth=0):
    """As JSON can say it: no NaN, keys are texts, everything else that it does not know by name."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > 50:
        return str(value)
    if isinstance(value, dict):
        return {str(k): sane(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [sane(v, depth + 1) for v in value]
    if hasattr(value, "isoformat"):
        text = value.isoformat()
        return None if text == "NaT" else text
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return sane(value.item(), depth + 1)
    if hasattr(value, "tolist"):
        return sane(value.tolist(), depth + 1)
    return str(value)


def bounded(message):
    """What is too large to be sent is left out, the largest first, and the text says so."""
    left_out = []
    while len(json.dumps(message, default=str)) > LINE_MAX:
        sizes = {k: len(json.dumps(v, default=str)) for k, v in message.items() if k not in ("type", "is_main_result")}
        largest = max(sizes, key=sizes.get)
        left_out.append(f"{largest}: {sizes[largest]} bytes")
        del message[largest]
    if left_out:
        message["text"] = (message.get("text", "") + f"\n[left out, more than 4 MiB: {', '.join(left_out)}]").lstrip("\n")
    return message


def display(*values, raw=False, **_):
    """Shows values with the cell, besides its result."""
    for value in values:
        if raw and isinstance(value, dict):
            cell.publish(value)
        elif value is not None:
            cell.show(value)


# ---- matplotlib ----

def is_figure(value):
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and isinstance(value, figure.Figure)


def figure_forms(figure):
    import io
    import kernel_charts
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    found = {"png": base64.b64encode(data.getvalue()).decode("ascii")}
    try:
        chart = kernel_charts.chart_of(figure)
    except Exception:  # what is drawn in a way that is not known is a picture all the same
        chart = None
    if chart is not None:
        found["chart"] = sane(chart)
    return found


def show_figures():
    """All that are open, and closes them: each is shown once."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    try:
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure.get_axes():
                cell.show(figure)
    finally:
        pyplot.close("all")


class Finder:
    """Before pyplot is loaded, it is told where its figures go. What is IPython's is ours if there is none."""

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.pyplot":
            self.prepare_matplotlib()
        return None

    @staticmethod
    def prepare_matplotlib():
        import os
        import kernel_charts
        try:
            if not os.environ.get("MPLBACKEND"):
                backend = types.ModuleType("atoll_figures")
                from matplotlib.backends.backend_agg import FigureCanvasAgg
                backend.FigureCanvas = FigureCanvasAgg
                backend.show = lambda *_, **__: show_figures()
                sys.modules["atoll_figures"] = backend
                sys.modules["matplotlib"].use("module://atoll_figures")
            kernel_charts.watch_boxes()
        except Exception as error:
            print(f"matplotlib: figures cannot be shown: {error}", file=sys.stderr)


# ---- IPython.display ----

class Shown:
    """HTML("<b>x</b>") and its relatives: something that has one form."""

    mime = "text/plain"

    def __init__(self, data=None, url=None, filename=None, **_):
        if filename is not None:
            mode = {} if self.mime.startswith("text/") or self.mime in ("image/svg+xml", "application/javascript") else {"mode": "rb"}
            with open(filename, **mode) as file:
                data = file.read()
        if data is None and url is not None:
            raise ValueError("fetch it first: only data and files are shown here")
        self.data = data

    def _repr_mimebundle_(self, **_):
        return {self.mime: self.data}

    def __repr__(self):
        return f"<{type(self).__name__} object>"


class Image(Shown):
    mime = "image/png"

    def __init__(self, data=None, url=None, filename=None, format=None, **options):
        if isinstance(data, str):
            data, filename = None, data
        super().__init__(data, url, filename)
        if format in ("jpg", "jpeg") or self.data[:2] == b"\xff\xd8":
            self.mime = "image/jpeg"


def shown(name, mime):
    return type(name, (Shown,), {"mime": mime})


def fake_ipython():
    import importlib.machinery
    top, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    top.__path__ = []
    top.get_ipython = lambda: cell
    top.display = inner
    top.version_info, top.__version__ = (8, 0, 0), "8.0.0"
    inner.display = display
    inner.clear_output = lambda *_, **__: None
    inner.Image = Image
    for name, mime in (("HTML", "text/html"), ("Markdown", "text/markdown"), ("SVG", "image/svg+xml"),
                       ("Latex", "text/latex"), ("Math", "text/latex"), ("JSON", "application/json"),
                       ("Javascript", "application/javascript"), ("Pretty", "text/plain")):
        setattr(inner, name, shown(name, mime))
    for module in (top, inner):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=module is top)
        sys.modules[module.__name__] = module


def before_cell(code):
    """IPython's own display() would only print, since its shell does not run here."""
    if "IPython" not in code or getattr(sys.modules.get("IPython.display"), "display", None) is display:
        return
    import importlib.util
    if importlib.util.find_spec("IPython") is None:
        fake_ipython()
        return
    import IPython
    import IPython.display
    for module in ("IPython.display", "IPython.core.display_functions", "IPython.core.display"):
        if hasattr(sys.modules.get(module), "display"):
            sys.modules[module].display = display
    IPython.get_ipython = lambda: cell


def begin(which):
    global cell
    cell = which
    sys.meta_path.insert(0, Finder())
