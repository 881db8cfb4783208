# SPDX-License-Identifier: Apache-2.0
"""
What is drawn in a figure of matplotlib, as data: lines, points, bars, slices, boxes; one chart for each of its axes
"""

import re

POINTS_MAX = 10000


def watch_boxes():
    """A box plot is drawn as mere lines; what they stand for is known only to the call that draws them."""
    from matplotlib.axes import Axes
    plain = Axes.bxp
    if getattr(plain, "is_atolls", False):
        return

    def bxp(self, bxpstats, *args, **options):
        drawn = plain(self, bxpstats, *args, **options)
        self.atoll_boxes = getattr(self, "atoll_boxes", []) + list(bxpstats)
        return drawn

    bxp.is_atolls = True
    Axes.bxp = bxp


def chart_of(figure):
    charts = [chart for chart in map(chart_of_axes, figure.get_axes()) if chart]
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = getattr(figure, "_suptitle", None)
    return {"type": "superchart", "title": title.get_text() if title else "", "elements": charts}


def chart_of_axes(axes):
    for kind, elements_of in (("pie", slices), ("box_and_whisker", boxes), ("bar", bars), ("scatter", points), ("line", lines)):
        elements = elements_of(axes)
        if elements:
            chart = {"type": kind, "title": axes.get_title(), "elements": elements}
            if kind != "pie":
                chart.update(labels(axes))
            if kind in ("scatter", "line"):
                chart.update(scales(axes))
            return chart
    if axes.has_data():
        return {"type": "unknown", "title": axes.get_title(), "elements": []}
    return None


# ---- elements ----

def slices(axes):
    from matplotlib.patches import Wedge
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    return [{"label": label_of(wedge), "angle": float(abs(wedge.theta2 - wedge.theta1)), "radius": float(wedge.r)}
            for wedge in wedges]


def boxes(axes):
    stats = getattr(axes, "atoll_boxes", [])
    names = tick_labels(axes.xaxis)
    found = []
    for i, box in enumerate(stats):
        found.append({
            "label": str(box.get("label") or (names[i] if i < len(names) else i + 1)),
            "min": float(box["whislo"]), "first_quartile": float(box["q1"]), "median": float(box["med"]),
            "third_quartile": float(box["q3"]), "max": float(box["whishi"]),
            "outliers": [float(value) for value in box.get("fliers", [])],
        })
    return found


def bars(axes):
    from matplotlib.container import BarContainer
    found = []
    for container in axes.containers:
        if not isinstance(container, BarContainer):
            continue
        is_lying = getattr(container, "orientation", "vertical") == "horizontal"
        axis = axes.yaxis if is_lying else axes.xaxis
        names = {round(float(at), 6): name for at, name in zip(axis.get_ticklocs(), tick_labels(axis)) if name}
        for bar in list(container.patches)[:POINTS_MAX]:
            middle = bar.get_y() + bar.get_height() / 2 if is_lying else bar.get_x() + bar.get_width() / 2
            value = bar.get_width() if is_lying else bar.get_height()
            found.append({"label": names.get(round(float(middle), 6), plain_number(middle)), "value": plain_number(value),
                          "group": label_of(container)})
    return found


def points(axes):
    from matplotlib.collections import PathCollection
    return [{"label": label_of(group), "points": pairs(axes, *zip(*group.get_offsets()))}
            for group in axes.collections if isinstance(group, PathCollection) and len(group.get_offsets())]


def lines(axes):
    return [{"label": label_of(line), "points": pairs(axes, line.get_xdata(), line.get_ydata())}
            for line in axes.lines if len(line.get_xdata())]


# ---- their parts ----

def label_of(artist):
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def plain_number(value):
    value = float(value)
    return str(int(value)) if value.is_integer() else str(value)


def pairs(axes, xs, ys):
    xs, ys = values(axes.xaxis, xs), values(axes.yaxis, ys)
    return [[x, y] for x, y in zip(xs, ys)][:POINTS_MAX]


def values(axis, data):
    data = list(data)
    kind = scale_of(axis)
    if kind == "datetime":
        from matplotlib.dates import num2date
        return [value.isoformat() if hasattr(value, "isoformat") else num2date(float(value)).isoformat() if is_number(value)
                else str(value) for value in data]
    if kind == "categorical":
        names = {place: name for name, place in axis.units._mapping.items()}
        return [names.get(int(value), str(value)) if is_number(value) else str(value) for value in data]
    return [float(value) if is_number(value) else str(value) for value in data]


def is_number(value):
    try:
        float(value)
        return not isinstance(value, str)
    except (TypeError, ValueError):
        return False


def scale_of(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    kind = type(converter).__name__
    if "Date" in kind:
        return "datetime"
    if "Category" in kind and hasattr(axis.units, "_mapping"):
        return "categorical"
    return axis.get_scale()


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def unit_in(label):
    """"Time (s)" is measured in s."""
    found = re.search(r"[(\[]([^()\[\]]+)[)\]]\s*$", label or "")
    return found.group(1) if found else None


def labels(axes):
    x, y = axes.get_xlabel(), axes.get_ylabel()
    return {"x_label": x or None, "y_label": y or None, "x_unit": unit_in(x), "y_unit": unit_in(y)}


def scales(axes):
    found = {}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        found[name + "_ticks"] = values(axis, axis.get_ticklocs())
        found[name + "_tick_labels"] = tick_labels(axis)
        found[name + "_scale"] = scale_of(axis)
    return found
