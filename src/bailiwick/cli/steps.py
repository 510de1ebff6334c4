"""What a person sees while something slow goes on: what it is, for how long, and a tick in the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Say = Callable[[str], None]
"""Tell how far the step has come, in a few words."""


@contextmanager
def step(console: Console, doing: str, *, done: str) -> Iterator[Say]:
    """Show `doing` until the block ends, then `done` and the time. One that fails leaves only its error."""
    started = time.monotonic()
    if not console.is_terminal:
        console.print(f"  {escape(doing)}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = progress.add_task(escape(doing), total=None)
        yield lambda text: progress.update(shown, description=f"{escape(doing)}: {escape(text)}")
    console.print(f"[green]✓[/green] {escape(done)} [dim]({time.monotonic() - started:.1f} s)[/dim]")
