"""Ctrl-C and SIGTERM as a flag that the training loop looks at between steps."""

import signal
import threading
from types import FrameType
from typing import Any

from seqdiff.core.errors import SeqdiffError


class TrainingInterrupted(SeqdiffError):
    """Training was stopped by a signal; the message says where its checkpoint is and how to go on."""


class Interrupts:
    """While entered, the first SIGINT or SIGTERM only raises a flag; the second acts as it always does.

    Signals reach the main thread only; elsewhere this does nothing.

    Attributes:
        name: of the signal that came, or empty.
    """

    def __init__(self) -> None:
        self.name = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, _: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
