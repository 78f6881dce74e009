"""Which paths of a plain copy may differ from the real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lwm_agents.places.plain_layer import Layer
from lwm_agents.places.plain_node import Node


def touched(layer: Layer) -> Iterator[str]:
    """Yield each such absolute path once, parents before children, names in order.

    A directory differs by its own names, not by what is below them. What came or went with a
    directory is listed name by name.
    """
    todo: list[tuple[str, Node | None]] = list(layer.folder.tops.items())
    while todo:
        path, node = todo.pop()
        if node is None or node.real != path or node.mtime_ns is not None or layer.changed(node):
            yield path
        below = _below(layer, path, node)
        below.sort(key=lambda named: named[0], reverse=True)
        todo += [(os.path.join(path, name), child) for name, child in below]


def _below(layer: Layer, path: str, node: Node | None) -> list[tuple[str, Node | None]]:
    """Return the names below a path that may differ, and what they are now."""
    found: dict[str, tuple[str, Node | None]] = {}
    here = node is not None and node.real == path
    if not here:
        # All that is really there is gone, and all that came with the node is new.
        for name in layer.real.names(path):
            found[layer.fold(name)] = name, None
        if node is not None and node.real is not None and node.content is None:
            for name in layer.real.names(node.real):
                found[layer.fold(name)] = name, Node(name, real=os.path.join(node.real, name))
    elif node is not None and None in node.names.values():
        # As they are written, of those that are gone.
        found = {layer.fold(name): (name, None) for name in layer.real.names(path)}
        found = {key: named for key, named in found.items() if node.names.get(key, node) is None}
    for key, child in ({} if node is None else node.names).items():
        if child is not None and not child.hidden:
            found[key] = child.name, child
        elif child is None or not here:
            found[key] = found.get(key, (key, None))[0], None
    return list(found.values())
