"""A progress bar for notebooks, which have no terminal: HTML that is updated in place."""

import html
import sys
import time
from typing import Any

WIDTH = 220  # pixels of a full bar


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel, with an IPython that can show HTML."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookBar:
    """The part of rich's `Progress` that `host.Watch` uses."""

    def __init__(self):
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        self._html = HTML
        self._tasks: list[dict[str, Any]] = []
        self._handle = display(HTML(""), display_id=True)

    def __enter__(self) -> "NotebookBar":
        return self

    def __exit__(self, *error: object) -> None:
        self._draw()

    def add_task(self, description: str, total: int, **fields: Any) -> int:
        self._tasks.append({"name": description.strip(), "total": total, "done": 0, "status": ""})
        return len(self._tasks) - 1

    def start_task(self, task: int) -> None:
        self._tasks[task].setdefault("began", time.monotonic())

    def update(self, task: int, completed: int, status: str, refresh: bool = True) -> None:
        now = self._tasks[task]
        seconds = time.monotonic() - now["began"]
        now.update(done=completed, status=status, seconds=seconds)
        if refresh:
            self._draw()

    def _draw(self) -> None:
        rows = "".join(_row(task) for task in self._tasks)
        self._handle.update(self._html(f"<table style='border: none'>{rows}</table>"))


def _row(task: dict[str, Any]) -> str:
    filled = round(WIDTH * task["done"] / max(task["total"], 1))
    bar = (
        f"<div style='width:{WIDTH}px; background:#ddd; border-radius:3px'>"
        f"<div style='width:{filled}px; height:0.8em; background:#3b5bdb'></div></div>"
    )
    times = f"{task['seconds']:.0f} s" if "seconds" in task else ""
    cells = [task["name"], bar, f"{task['done']:,}/{task['total']:,}", times]
    cells.append(html.escape(task["status"]))
    return "<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in cells) + "</tr>"
